// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package testkit

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"
)

// authority signs the certificates of all clusters of a test binary.
type authority struct {
	dir  string
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	pem  []byte
}

// Files of the authority in the folder of the lab.
const (
	caCertFile   = "ca.crt"
	caKeyFile    = "ca.key"
	servingCert  = "serving.crt"
	servingKey   = "serving.key"
	accountsKey  = "accounts.key"
	accountsPub  = "accounts.pub"
	kubeletCert  = "kubelet-client.crt"
	kubeletKey   = "kubelet-client.key"
	frontCACert  = "front-proxy-ca.crt"
	frontCert    = "front-proxy-client.crt"
	frontKey     = "front-proxy-client.key"
	validityTime = 30 * 24 * time.Hour // longer than any certificate that tests have signed
)

func newAuthority(dir string) (*authority, error) {
	a, err := newCA("testkit")
	if err != nil {
		return nil, err
	}
	a.dir = dir
	return a, a.writeFiles()
}

func newCA(name string) (*authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	template := &x509.Certificate{
		SerialNumber:          big.NewInt(1),
		Subject:               pkix.Name{CommonName: name},
		NotBefore:             time.Now().Add(-time.Hour),
		NotAfter:              time.Now().Add(validityTime),
		IsCA:                  true,
		BasicConstraintsValid: true,
		KeyUsage:              x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, err
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, err
	}
	return &authority{cert: cert, key: key, pem: encodePEM("CERTIFICATE", der)}, nil
}

func (a *authority) writeFiles() error {
	caKey, err := encodeKey(a.key)
	if err != nil {
		return err
	}
	cert, key, err := a.sign(&x509.Certificate{
		Subject:     pkix.Name{CommonName: "kube-apiserver"},
		DNSNames:    []string{"localhost", "kubernetes.default.svc"},
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback, net.IPv4(10, 96, 0, 1)},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	})
	if err != nil {
		return err
	}
	kubeletClient, kubeletClientKey, err := a.client("kube-apiserver-kubelet-client", []string{"system:masters"})
	if err != nil {
		return err
	}
	front, err := newCA("front-proxy-ca")
	if err != nil {
		return err
	}
	frontClient, frontClientKey, err := front.client("front-proxy-client", nil)
	if err != nil {
		return err
	}
	accounts, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	accountsPrivate, err := encodeKey(accounts)
	if err != nil {
		return err
	}
	public, err := x509.MarshalPKIXPublicKey(accounts.Public())
	if err != nil {
		return err
	}
	for name, data := range map[string][]byte{
		caCertFile: a.pem, caKeyFile: caKey, servingCert: cert, servingKey: key,
		accountsKey: accountsPrivate, accountsPub: encodePEM("PUBLIC KEY", public), kubeletCert: kubeletClient, kubeletKey: kubeletClientKey,
		frontCACert: front.pem, frontCert: frontClient, frontKey: frontClientKey,
	} {
		if err := os.WriteFile(a.file(name), data, 0o600); err != nil {
			return fmt.Errorf("writing %s: %w", name, err)
		}
	}
	return nil
}

func (a *authority) file(name string) string { return filepath.Join(a.dir, name) }

// client returns a certificate and key for a user.
func (a *authority) client(name string, groups []string) (cert, key []byte, err error) {
	return a.sign(&x509.Certificate{
		Subject:     pkix.Name{CommonName: name, Organization: groups},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	})
}

// sign completes the template with a key of its own.
func (a *authority) sign(template *x509.Certificate) (cert, key []byte, err error) {
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	serial, err := rand.Int(rand.Reader, big.NewInt(1<<62))
	if err != nil {
		return nil, nil, err
	}
	template.SerialNumber = serial
	template.NotBefore = time.Now().Add(-time.Hour)
	template.NotAfter = time.Now().Add(validityTime)
	template.KeyUsage = x509.KeyUsageDigitalSignature
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, private.Public(), a.key)
	if err != nil {
		return nil, nil, err
	}
	key, err = encodeKey(private)
	return encodePEM("CERTIFICATE", der), key, err
}

func encodeKey(key *ecdsa.PrivateKey) ([]byte, error) {
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, err
	}
	return encodePEM("PRIVATE KEY", der), nil
}

func encodePEM(kind string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
}
