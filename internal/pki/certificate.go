// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package pki

import (
	"bytes"
	"crypto"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"time"
)

// MinCertificateAge is the minimum time between two certificates: it limits the load by a signer with very short lifetimes, and by a
// consumer that repeats its request.
const MinCertificateAge = 30 * time.Second

// RenewAt returns the time of renewal: after two thirds of the remaining lifetime at issuance. Signers backdate the
// start of a certificate: the time of issuance is stored separately.
func RenewAt(issued, notAfter time.Time) time.Time {
	return issued.Add(max(notAfter.Sub(issued)*2/3, MinCertificateAge))
}

// Supersedes reports whether an offered certificate, PEM, replaces the current one: unless the offer is invalid, or is outdated, with an
// earlier beginning and an earlier end.
func Supersedes(offered, current []byte) bool {
	next, err := ParseCertificate(offered)
	if err != nil {
		return false
	}
	now, err := ParseCertificate(current)
	return err != nil || !next.NotBefore.Before(now.NotBefore) || !next.NotAfter.Before(now.NotAfter)
}

// ParseCertificate reads the first certificate of a chain, PEM.
func ParseCertificate(data []byte) (*x509.Certificate, error) {
	block, _ := pem.Decode(data)
	if block == nil || block.Type != "CERTIFICATE" {
		return nil, errors.New("expected a certificate in PEM, found none")
	}
	certificate, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("reading the certificate: %w", err)
	}
	return certificate, nil
}

// CheckCertificate returns why a certificate chain, PEM, is not valid for the key.
func CheckCertificate(data []byte, key crypto.PublicKey) error {
	certificate, err := ParseCertificate(data)
	if err != nil {
		return err
	}
	if !sameKey(certificate.PublicKey, key) {
		return errors.New("the certificate is for another key")
	}
	return nil
}

// checkCertificates tells why data is not a list of certificates, PEM.
func checkCertificates(data []byte) error {
	found := false
	for rest := bytes.TrimSpace(data); len(rest) > 0; rest = bytes.TrimSpace(rest) {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil || block.Type != "CERTIFICATE" {
			return errors.New("expected certificates in PEM and nothing else")
		}
		if _, err := x509.ParseCertificate(block.Bytes); err != nil {
			return err
		}
		found = true
	}
	if !found {
		return errors.New("expected certificates in PEM, found none")
	}
	return nil
}
