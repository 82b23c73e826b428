// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package servingcert

import (
	"bytes"
	"crypto"
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
	"net"
	"slices"
	"time"
)

// Keys of the certificate Secret, shared by all replicas.
const (
	keyAuthorities  = "ca"     // CA certificates, PEM, the newest first
	keyAuthorityKey = "ca.key" // private key of the newest CA certificate, PEM
	keyLeaf         = "tls.crt"
	keyLeafKey      = "tls.key"
)

// authorityLives is the lifetime of a CA certificate in lifetimes of a serving certificate. Both are renewed when a
// third of the lifetime is left.
const authorityLives = 4

// backdate is the clock skew tolerated in NotBefore: clients whose clock is behind by less accept a new certificate.
const backdate = time.Hour

// servingCertificates contains the certificate served by replicas and the CA certificates trusted by the API server.
type servingCertificates struct {
	authorities  []*x509.Certificate // the newest first; all of them are trusted
	authorityKey crypto.Signer       // of the newest CA certificate
	leaf         *x509.Certificate
	leafKey      crypto.Signer
}

// rotationPolicy defines when certificates are renewed.
type rotationPolicy struct {
	hosts    []string // subject alternative names of the serving certificate; the first is also the common name
	lifetime time.Duration
}

// nextKeyring returns the keyring after rotation, or have itself if no renewal is due. A new CA certificate is first added to the CA bundle, while
// the old serving certificate stays in use; shown reports that this was long enough ago. Every certificate still served by a replica is trusted: CA
// certificates are trusted until they expire, and no serving certificate outlives its CA.
func (p rotationPolicy) nextKeyring(now time.Time, have *servingCertificates, shown bool) (*servingCertificates, error) {
	if !have.isUsable(now) {
		return p.newKeyring(now, have)
	}
	next := *have
	next.authorities = slices.DeleteFunc(slices.Clone(have.authorities), isExpired(now))
	if p.authorityDue(now, next.authorities[0]) {
		// The last certificate of the old CA stays valid until all API servers have the new CA bundle.
		if err := p.addLeaf(now, &next); err != nil {
			return nil, err
		}
		if err := p.addAuthority(now, &next); err != nil {
			return nil, err
		}
		shown = false
	}
	if current := signedBy(next.leaf, next.authorities[0]); p.leafBroken(now, &next) || current && p.leafDue(now, next.leaf) || !current && shown {
		if err := p.addLeaf(now, &next); err != nil {
			return nil, err
		}
	}
	if next.isEqual(have) {
		return have, nil
	}
	return &next, nil
}

// newKeyring creates a new CA and a new serving certificate. Trusted CA certificates stay trusted: a replica may still
// serve a certificate of theirs.
func (p rotationPolicy) newKeyring(now time.Time, current *servingCertificates) (*servingCertificates, error) {
	next := &servingCertificates{}
	if current != nil {
		next.authorities = slices.DeleteFunc(slices.Clone(current.authorities), isExpired(now))
	}
	if err := p.addAuthority(now, next); err != nil {
		return nil, err
	}
	return next, p.addLeaf(now, next)
}

func (p rotationPolicy) authorityDue(now time.Time, authority *x509.Certificate) bool {
	return authority.NotAfter.Sub(now) <= authorityLives*p.lifetime/3
}

func (p rotationPolicy) leafDue(now time.Time, leaf *x509.Certificate) bool {
	return leaf.NotAfter.Sub(now) <= p.lifetime/3
}

// leafBroken reports whether no client can accept the serving certificate: an immediate renewal does no harm.
func (p rotationPolicy) leafBroken(now time.Time, k *servingCertificates) bool {
	if isExpired(now)(k.leaf) || !slices.ContainsFunc(k.authorities, func(a *x509.Certificate) bool { return signedBy(k.leaf, a) }) {
		return true
	}
	return slices.ContainsFunc(p.hosts, func(host string) bool { return k.leaf.VerifyHostname(host) != nil })
}

// dueAt returns the time of the next renewal.
func (p rotationPolicy) dueAt(k *servingCertificates) time.Time {
	due := k.leaf.NotAfter.Add(-p.lifetime / 3)
	if authority := k.authorities[0].NotAfter.Add(-authorityLives * p.lifetime / 3); authority.Before(due) {
		due = authority
	}
	return due
}

func (p rotationPolicy) addAuthority(now time.Time, k *servingCertificates) error {
	key, template, err := newTemplate(p.hosts[0]+"-ca", now, authorityLives*p.lifetime)
	if err != nil {
		return err
	}
	template.IsCA, template.BasicConstraintsValid, template.MaxPathLenZero = true, true, true
	template.KeyUsage = x509.KeyUsageCertSign
	authority, err := signCertificate(template, template, key.Public(), key)
	if err != nil {
		return fmt.Errorf("making the certificate authority: %w", err)
	}
	k.authorities = append([]*x509.Certificate{authority}, k.authorities...)
	k.authorityKey = key
	return nil
}

func (p rotationPolicy) addLeaf(now time.Time, k *servingCertificates) error {
	key, template, err := newTemplate(p.hosts[0], now, p.lifetime)
	if err != nil {
		return err
	}
	if last := k.authorities[0].NotAfter; template.NotAfter.After(last) {
		template.NotAfter = last
	}
	template.KeyUsage = x509.KeyUsageDigitalSignature
	template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	for _, host := range p.hosts {
		if ip := net.ParseIP(host); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
			continue
		}
		template.DNSNames = append(template.DNSNames, host)
	}
	leaf, err := signCertificate(template, k.authorities[0], key.Public(), k.authorityKey)
	if err != nil {
		return fmt.Errorf("making the serving certificate: %w", err)
	}
	k.leaf, k.leafKey = leaf, key
	return nil
}

func newTemplate(name string, now time.Time, lifetime time.Duration) (crypto.Signer, *x509.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, fmt.Errorf("making a key: %w", err)
	}
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return nil, nil, fmt.Errorf("choosing a serial number: %w", err)
	}
	return key, &x509.Certificate{
		SerialNumber: serial,
		// The serial number makes the names of CA certificates distinct.
		Subject:   pkix.Name{CommonName: name, SerialNumber: serial.Text(36)},
		NotBefore: now.Add(-backdate),
		NotAfter:  now.Add(lifetime),
	}, nil
}

func signCertificate(template, parent *x509.Certificate, public crypto.PublicKey, key crypto.Signer) (*x509.Certificate, error) {
	der, err := x509.CreateCertificate(rand.Reader, template, parent, public, key)
	if err != nil {
		return nil, err
	}
	return x509.ParseCertificate(der)
}

func isExpired(now time.Time) func(*x509.Certificate) bool {
	return func(c *x509.Certificate) bool { return !now.Before(c.NotAfter) }
}

func signedBy(leaf, authority *x509.Certificate) bool {
	return bytes.Equal(leaf.RawIssuer, authority.RawSubject) && leaf.CheckSignatureFrom(authority) == nil
}

// isUsable reports whether the keyring has an unexpired CA certificate with key, and a serving certificate.
func (k *servingCertificates) isUsable(now time.Time) bool {
	return k != nil && k.leaf != nil && len(k.authorities) > 0 && k.authorityKey != nil && !isExpired(now)(k.authorities[0])
}

func (k *servingCertificates) isEqual(other *servingCertificates) bool {
	return k.leaf.Equal(other.leaf) && slices.EqualFunc(k.authorities, other.authorities, (*x509.Certificate).Equal)
}

// caBundle returns the CA bundle of the trusting objects.
func (k *servingCertificates) caBundle() []byte {
	var out bytes.Buffer
	for _, authority := range k.authorities {
		out.Write(encodePEM("CERTIFICATE", authority.Raw))
	}
	return out.Bytes()
}

func (k *servingCertificates) tlsCertificate() *tls.Certificate {
	return &tls.Certificate{Certificate: [][]byte{k.leaf.Raw}, PrivateKey: k.leafKey, Leaf: k.leaf}
}

func (k *servingCertificates) encodeSecret() (map[string][]byte, error) {
	authorityKey, err := x509.MarshalPKCS8PrivateKey(k.authorityKey)
	if err != nil {
		return nil, fmt.Errorf("encoding the authority's key: %w", err)
	}
	leafKey, err := x509.MarshalPKCS8PrivateKey(k.leafKey)
	if err != nil {
		return nil, fmt.Errorf("encoding the serving key: %w", err)
	}
	return map[string][]byte{
		keyAuthorities:  k.caBundle(),
		keyAuthorityKey: encodePEM("PRIVATE KEY", authorityKey),
		keyLeaf:         encodePEM("CERTIFICATE", k.leaf.Raw),
		keyLeafKey:      encodePEM("PRIVATE KEY", leafKey),
	}, nil
}

func encodePEM(kind string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
}

// decodeSecret decodes the Secret as far as possible. The error names the missing or invalid key; the decoded CA
// certificates are returned in spite of an error, because replicas may still serve certificates of theirs.
func decodeSecret(data map[string][]byte) (*servingCertificates, error) {
	k := &servingCertificates{}
	var err error
	if k.authorities, err = parseCertificates(data[keyAuthorities]); err != nil {
		return k, fmt.Errorf("reading %s: %w", keyAuthorities, err)
	}
	leaves, err := parseCertificates(data[keyLeaf])
	if err != nil {
		return k, fmt.Errorf("reading %s: %w", keyLeaf, err)
	}
	authorityKey, err := keyOf(data[keyAuthorityKey], k.authorities[0])
	if err != nil {
		return k, fmt.Errorf("reading %s: %w", keyAuthorityKey, err)
	}
	leafKey, err := keyOf(data[keyLeafKey], leaves[0])
	if err != nil {
		return k, fmt.Errorf("reading %s: %w", keyLeafKey, err)
	}
	k.authorityKey, k.leaf, k.leafKey = authorityKey, leaves[0], leafKey
	return k, nil
}

func parseCertificates(data []byte) ([]*x509.Certificate, error) {
	var out []*x509.Certificate
	for block, rest := pem.Decode(data); block != nil; block, rest = pem.Decode(rest) {
		c, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, err
		}
		out = append(out, c)
	}
	if len(out) == 0 {
		return nil, errors.New("no certificate")
	}
	return out, nil
}

func keyOf(data []byte, certificate *x509.Certificate) (crypto.Signer, error) {
	block, _ := pem.Decode(data)
	if block == nil {
		return nil, errors.New("no key")
	}
	parsed, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return nil, err
	}
	key, ok := parsed.(crypto.Signer)
	if !ok {
		return nil, fmt.Errorf("a %T does not sign", parsed)
	}
	public, ok := key.Public().(interface{ Equal(crypto.PublicKey) bool })
	if !ok || !public.Equal(certificate.PublicKey) {
		return nil, errors.New("the key is not that of the certificate")
	}
	return key, nil
}
