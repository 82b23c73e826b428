// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package pki

import (
	"bytes"
	"crypto"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"slices"
	"strings"
)

const blockRequest = "CERTIFICATE REQUEST"

// Subject is the complete subject of our certificates, for Kubernetes a user and the user's only group.
type Subject struct{ CommonName, Organization string }

// SliceSubject is the subject of a slice of a consumer. The hash keeps the slices of two consumers apart.
func SliceSubject(slice, consumer string) Subject {
	sum := sha256.Sum256([]byte(consumer))
	return Subject{CommonName: slice + "-" + hex.EncodeToString(sum[:6]), Organization: consumer}
}

// CouldBeOfSlice reports whether the user name could belong to a ResourceSlice of the consumer.
func CouldBeOfSlice(user, consumer string) bool {
	return strings.HasSuffix(user, SliceSubject("", consumer).CommonName)
}

// NewCSR returns a request, PEM, for a client certificate with the subject.
func NewCSR(key crypto.Signer, s Subject) ([]byte, error) {
	return newRequest(key, &x509.CertificateRequest{Subject: s.pkixName()})
}

func (s Subject) pkixName() pkix.Name {
	return pkix.Name{CommonName: s.CommonName, Organization: []string{s.Organization}}
}

func newRequest(key crypto.Signer, template *x509.CertificateRequest) ([]byte, error) {
	der, err := x509.CreateCertificateRequest(rand.Reader, template, key)
	if err != nil {
		return nil, fmt.Errorf("making a certificate request: %w", err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: blockRequest, Bytes: der}), nil
}

// CheckCSR returns why a certificate request, PEM, is not exactly the expected request: for a client certificate with
// only this subject, no extension, a key of sufficient strength, signed by this key. The key must be the given key,
// unless key is nil.
func CheckCSR(data []byte, want Subject, key crypto.PublicKey) error {
	csr, err := parseRequest(data)
	if err != nil {
		return err
	}
	attributes, err := rawAttributes(csr)
	if err != nil {
		return err
	}
	if len(attributes) > 0 || len(csr.Extensions) > 0 {
		return errors.New("the certificate request asks for extensions or carries attributes, and must not")
	}
	if err := checkRequest(csr, want); err != nil {
		return err
	}
	if key != nil && !sameKey(csr.PublicKey, key) {
		return errors.New("the certificate request is for another key than the registered one")
	}
	return nil
}

// CSRKey returns the public key of a certificate request, PEM.
func CSRKey(data []byte) (crypto.PublicKey, error) {
	csr, err := parseRequest(data)
	if err != nil {
		return nil, err
	}
	return csr.PublicKey, nil
}

// checkRequest checks the common part of all requests: subject, key and self-signature.
func checkRequest(csr *x509.CertificateRequest, want Subject) error {
	if err := checkSubject(csr.RawSubject, want); err != nil {
		return err
	}
	if err := CheckPublicKey(csr.PublicKey); err != nil {
		return err
	}
	if !slices.Contains(signatureAlgorithms, csr.SignatureAlgorithm) {
		return fmt.Errorf("the signature algorithm %s of the certificate request is not allowed", csr.SignatureAlgorithm)
	}
	if err := csr.CheckSignature(); err != nil {
		return fmt.Errorf("checking the signature of the certificate request: %w", err)
	}
	return nil
}

var signatureAlgorithms = []x509.SignatureAlgorithm{
	x509.PureEd25519,
	x509.SHA256WithRSA, x509.SHA384WithRSA, x509.SHA512WithRSA,
	x509.SHA256WithRSAPSS, x509.SHA384WithRSAPSS, x509.SHA512WithRSAPSS,
	x509.ECDSAWithSHA256, x509.ECDSAWithSHA384, x509.ECDSAWithSHA512,
}

func parseRequest(data []byte) (*x509.CertificateRequest, error) {
	der, err := soleBlock(data, blockRequest)
	if err != nil {
		return nil, err
	}
	csr, err := x509.ParseCertificateRequest(der)
	if err != nil {
		return nil, fmt.Errorf("reading the certificate request: %w", err)
	}
	return csr, nil
}

// soleBlock returns the content of data. data must be exactly one PEM block of the given kind: no surrounding text, no
// headers, no second block.
func soleBlock(data []byte, kind string) ([]byte, error) {
	block, _ := pem.Decode(data)
	switch {
	case block == nil:
		return nil, fmt.Errorf("expected a PEM block %q, found none", kind)
	case block.Type != kind:
		return nil, fmt.Errorf("expected a PEM block %q, found %q", kind, block.Type)
	}
	alone := pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: block.Bytes})
	if !bytes.Equal(bytes.TrimRight(data, "\n"), bytes.TrimRight(alone, "\n")) {
		return nil, fmt.Errorf("expected the PEM block %q and nothing else", kind)
	}
	return block.Bytes, nil
}

var (
	oidCommonName   = asn1.ObjectIdentifier{2, 5, 4, 3}
	oidOrganization = asn1.ObjectIdentifier{2, 5, 4, 10}
)

// checkSubject compares the encoded subject: pkix.Name drops attributes without a field.
func checkSubject(raw []byte, want Subject) error {
	var sequence pkix.RDNSequence
	rest, err := asn1.Unmarshal(raw, &sequence)
	if err != nil {
		return fmt.Errorf("reading the subject of the certificate request: %w", err)
	}
	if len(rest) > 0 {
		return errors.New("the subject of the certificate request has trailing data")
	}
	var commonNames, organizations []string
	for _, set := range sequence {
		for _, part := range set {
			value, ok := part.Value.(string)
			switch {
			case ok && part.Type.Equal(oidCommonName):
				commonNames = append(commonNames, value)
			case ok && part.Type.Equal(oidOrganization):
				organizations = append(organizations, value)
			default:
				return fmt.Errorf("the subject of the certificate request has more than a common name and an organisation: %s", part.Type)
			}
		}
	}
	if err := checkSole("common name", commonNames, want.CommonName); err != nil {
		return err
	}
	return checkSole("organisation", organizations, want.Organization)
}

func checkSole(what string, current []string, want string) error {
	switch {
	case len(current) != 1:
		return fmt.Errorf("the subject of the certificate request must have one %s, it has %d", what, len(current))
	case want == "" || current[0] != want:
		return fmt.Errorf("the %s of the certificate request is %q, not %q", what, current[0], want)
	}
	return nil
}

// rawAttributes returns the attributes of a request as sent: x509 leaves out unknown attributes.
func rawAttributes(csr *x509.CertificateRequest) ([]asn1.RawValue, error) {
	var tbs struct {
		Version    int
		Subject    asn1.RawValue
		PublicKey  asn1.RawValue
		Attributes []asn1.RawValue `asn1:"tag:0"`
	}
	rest, err := asn1.Unmarshal(csr.RawTBSCertificateRequest, &tbs)
	if err != nil {
		return nil, fmt.Errorf("reading the attributes of the certificate request: %w", err)
	}
	if len(rest) > 0 {
		return nil, errors.New("the certificate request has trailing data")
	}
	return tbs.Attributes, nil
}
