// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

// Package mover copies the files of one volume to another: `liqoctl move volume` runs a source and a target in two pods. Source and target
// authenticate each other by the keys of this one move. The target trusts the source with nothing but content: no path leaves the volume, and no more
// than the limit is written.
package mover

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"os"
	"path/filepath"
	"time"

	"liqo.io/liqo/internal/pki"
)

// Phases of a move.
const (
	Copying   = "copying"
	Verifying = "verifying"
	Done      = "done"
)

// Progress is a line of the target's output, and its termination message.
type Progress struct {
	Phase string `json:"phase"`
	// Files and Bytes are complete in this phase, of the totals.
	Files      int64 `json:"files"`
	TotalFiles int64 `json:"totalFiles"`
	Bytes      int64 `json:"bytes"`
	TotalBytes int64 `json:"totalBytes"`
	// Rate is in bytes per second, over the last seconds.
	Rate int64 `json:"rate"`
}

// TimeLeft returns the time until the phase is complete, 0 if unknown.
func (p Progress) TimeLeft() time.Duration {
	if p.Rate <= 0 {
		return 0
	}
	return (time.Duration(float64(p.TotalBytes-p.Bytes) / float64(p.Rate) * float64(time.Second))).Round(time.Second)
}

// Keys of the Secret of either end.
const (
	certificateFile = "tls.crt"
	keyFile         = "tls.key"
	peerFile        = "peer.crt"
)

// validity outlasts the largest copy. The Secrets are deleted at the end of a move.
const validity = 60 * 24 * time.Hour

// serverName is in the certificates of both ends.
const serverName = "mover"

// NewKeys returns the data of the Secrets of two ends that accept only each other.
func NewKeys(now time.Time) (one, other map[string][]byte, err error) {
	if one, err = newPair(now); err != nil {
		return nil, nil, err
	}
	if other, err = newPair(now); err != nil {
		return nil, nil, err
	}
	one[peerFile], other[peerFile] = other[certificateFile], one[certificateFile]
	return one, other, nil
}

// newPair returns a key with its own certificate.
func newPair(now time.Time) (map[string][]byte, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("generating a key: %w", err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(now.UnixNano()), Subject: pkix.Name{CommonName: serverName}, DNSNames: []string{serverName},
		NotBefore: now.Add(-time.Hour), NotAfter: now.Add(validity), // clocks differ
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, fmt.Errorf("making a certificate: %w", err)
	}
	encoded, err := pki.EncodeKey(key)
	if err != nil {
		return nil, err
	}
	return map[string][]byte{certificateFile: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), keyFile: encoded}, nil
}

// loadTLS returns the configuration of an end from the folder of the mounted Secret. The configuration is for both roles of TLS.
func loadTLS(dir string) (*tls.Config, error) {
	own, err := tls.LoadX509KeyPair(filepath.Join(dir, certificateFile), filepath.Join(dir, keyFile))
	if err != nil {
		return nil, fmt.Errorf("reading the key: %w", err)
	}
	peer, err := os.ReadFile(filepath.Join(dir, peerFile))
	if err != nil {
		return nil, fmt.Errorf("reading the certificate of the other end: %w", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(peer) {
		return nil, errors.New("the certificate of the other end is not PEM")
	}
	return &tls.Config{
		MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{own}, ServerName: serverName,
		RootCAs: pool, ClientCAs: pool, ClientAuth: tls.RequireAndVerifyClientCert,
	}, nil
}
