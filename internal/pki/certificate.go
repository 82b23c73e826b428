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

// MinCertificateAge is how long nobody is issued another certificate after one: neither a signer that hands out very short ones nor a
// consumer that asks anew keeps us busy.
const MinCertificateAge = 30 * time.Second

// RenewAt tells when to renew a certificate: after two thirds of the time that remained when it was issued. Signers
// backdate the start of a certificate, so the time of issue has to be remembered apart.
func RenewAt(issued, notAfter time.Time) time.Time {
	return issued.Add(max(notAfter.Sub(issued)*2/3, MinCertificateAge))
}

// Supersedes tells whether a certificate, PEM, is to be used in place of another one. Only one that is no certificate, or began and
// ends earlier, is not: whoever brings it is late.
func Supersedes(offered, have []byte) bool {
	next, err := ParseCertificate(offered)
	if err != nil {
		return false
	}
	now, err := ParseCertificate(have)
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

// CheckCertificate tells why a certificate chain, PEM, is not one for that key.
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
