// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"time"

	"liqo.io/liqo/playground/internal/home"
	"liqo.io/liqo/playground/internal/spec"
)

// lifetime is the lifetime of certificates, which are not renewed.
const lifetime = 10 * 365 * 24 * time.Hour

// PKI is a folder of keys and certificates: <name>.key and <name>.crt.
type PKI string

func (p PKI) Cert(name string) string { return filepath.Join(string(p), name+".crt") }
func (p PKI) Key(name string) string  { return filepath.Join(string(p), name+".key") }

// leafCertificate describes a certificate for a server, a client or both.
type leafCertificate struct {
	name, ca   string
	commonName string
	groups     []string
	dns        []string
	addresses  []netip.Addr
}

// Ensure creates the missing keys and certificates of the cluster and its nodes.
func (p PKI) Ensure(c spec.Cluster) error {
	for _, ca := range []string{"ca", "front-proxy-ca"} {
		if err := p.ensureCA(ca); err != nil {
			return err
		}
	}
	if err := p.ensureKeyPair("sa"); err != nil {
		return err
	}
	for _, l := range leafCertificates(c) {
		if err := p.ensureLeaf(l); err != nil {
			return err
		}
	}
	return nil
}

func leafCertificates(c spec.Cluster) []leafCertificate {
	first := c.ControlPlane()
	loopback := []netip.Addr{netip.MustParseAddr("127.0.0.1"), netip.IPv6Loopback()}
	server := leafCertificate{
		name: "apiserver", ca: "ca", commonName: "kube-apiserver",
		dns:       []string{"kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc.cluster.local", "localhost", first.Name},
		addresses: append(append(loopback, first.Addresses...), c.KubernetesService()),
	}
	all := []leafCertificate{
		server,
		{name: "front-proxy", ca: "front-proxy-ca", commonName: "front-proxy-client"},
		{name: "admin", ca: "ca", commonName: "kubernetes-admin", groups: []string{"system:masters"}},
		{name: "apiserver-kubelet", ca: "ca", commonName: "kube-apiserver-kubelet-client", groups: []string{"system:masters"}},
		{name: "controller-manager", ca: "ca", commonName: "system:kube-controller-manager"},
		{name: "scheduler", ca: "ca", commonName: "system:kube-scheduler"},
		{name: "proxy", ca: "ca", commonName: "system:kube-proxy"},
	}
	for i, n := range c.Nodes() {
		all = append(all, leafCertificate{
			name: n.Name, ca: "ca", commonName: "system:node:" + n.Name, groups: []string{"system:nodes"},
			dns: []string{n.Name}, addresses: append(n.Addresses, c.Move(n.Name).Nodes()[i].Addresses...),
		})
	}
	return all
}

func (p PKI) ensureCA(name string) error {
	if p.hasCertificate(name) {
		return nil
	}
	commonName := name
	if name == "ca" {
		commonName = "kubernetes"
	}
	t := newTemplate(commonName, nil)
	t.IsCA, t.BasicConstraintsValid = true, true
	t.KeyUsage = x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature | x509.KeyUsageKeyEncipherment
	key, err := newKey()
	if err != nil {
		return err
	}
	return p.writeCertificate(name, key, t, t, key)
}

func (p PKI) ensureLeaf(l leafCertificate) error {
	if p.hasCertificate(l.name) {
		return nil
	}
	ca, caKey, err := p.loadKeyPair(l.ca)
	if err != nil {
		return err
	}
	t := newTemplate(l.commonName, l.groups)
	t.KeyUsage = x509.KeyUsageDigitalSignature | x509.KeyUsageKeyEncipherment
	t.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}
	t.DNSNames = l.dns
	for _, a := range l.addresses {
		t.IPAddresses = append(t.IPAddresses, net.IP(a.AsSlice())) // crypto/x509 uses net.IP
	}
	key, err := newKey()
	if err != nil {
		return err
	}
	return p.writeCertificate(l.name, key, t, ca, caKey)
}

// ensureKeyPair creates the key that signs tokens of service accounts, and its public key <name>.pub.
func (p PKI) ensureKeyPair(name string) error {
	pub := filepath.Join(string(p), name+".pub")
	if fileExists(pub) && fileExists(p.Key(name)) {
		return nil
	}
	key, err := newKey()
	if err != nil {
		return err
	}
	if err := p.writeKey(name, key); err != nil {
		return err
	}
	der, err := x509.MarshalPKIXPublicKey(key.Public())
	if err != nil {
		return fmt.Errorf("encoding the public key %s: %w", name, err)
	}
	return home.Write(pub, pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}), 0o644)
}

// hasCertificate reports whether certificate and key exist: the certificate is written after the key.
func (p PKI) hasCertificate(name string) bool { return fileExists(p.Cert(name)) }

func fileExists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

func newKey() (*ecdsa.PrivateKey, error) { return ecdsa.GenerateKey(elliptic.P256(), rand.Reader) }

func newTemplate(commonName string, groups []string) *x509.Certificate {
	serial, _ := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 62))
	now := time.Now()
	return &x509.Certificate{
		SerialNumber: serial,
		Subject:      pkix.Name{CommonName: commonName, Organization: groups},
		NotBefore:    now.Add(-time.Hour), NotAfter: now.Add(lifetime),
	}
}

func (p PKI) writeCertificate(name string, key *ecdsa.PrivateKey, t, parent *x509.Certificate, signer crypto.Signer) error {
	der, err := x509.CreateCertificate(rand.Reader, t, parent, key.Public(), signer)
	if err != nil {
		return fmt.Errorf("signing certificate %s: %w", name, err)
	}
	if err := p.writeKey(name, key); err != nil {
		return err
	}
	return home.Write(p.Cert(name), pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o644)
}

func (p PKI) writeKey(name string, key *ecdsa.PrivateKey) error {
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return fmt.Errorf("encoding key %s: %w", name, err)
	}
	return home.Write(p.Key(name), pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der}), 0o600)
}

func (p PKI) loadKeyPair(name string) (*x509.Certificate, *ecdsa.PrivateKey, error) {
	certPEM, err := os.ReadFile(p.Cert(name))
	if err != nil {
		return nil, nil, fmt.Errorf("reading certificate %s: %w", name, err)
	}
	keyPEM, err := os.ReadFile(p.Key(name))
	if err != nil {
		return nil, nil, fmt.Errorf("reading key %s: %w", name, err)
	}
	certBlock, _ := pem.Decode(certPEM)
	keyBlock, _ := pem.Decode(keyPEM)
	if certBlock == nil || keyBlock == nil {
		return nil, nil, fmt.Errorf("certificate or key %s is damaged", name)
	}
	cert, err := x509.ParseCertificate(certBlock.Bytes)
	if err != nil {
		return nil, nil, fmt.Errorf("reading certificate %s: %w", name, err)
	}
	key, err := x509.ParseECPrivateKey(keyBlock.Bytes)
	if err != nil {
		return nil, nil, fmt.Errorf("reading key %s: %w", name, err)
	}
	return cert, key, nil
}
