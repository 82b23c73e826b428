// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

// Package pki validates credentials: the strength of keys, the content of certificate requests and of kubeconfigs, and
// the
// time of renewal. Each result depends on its arguments alone.
//
// Data from a peer is validated completely: a request or a kubeconfig with unexpected content is rejected, because a
// later
// reader may interpret the unexpected part.
package pki

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"slices"
)

// RSA keys below 2048 bits are too weak; above 8192 a few of them keep a processor busy.
const (
	minRSABits    = 2048
	maxRSABits    = 8192
	compatibleRSA = 2048
)

// NewKey makes an Ed25519 key.
func NewKey() (crypto.Signer, error) {
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("generating an Ed25519 key: %w", err)
	}
	return key, nil
}

// NewCompatibleKey returns an RSA key, for API servers behind TLS terminators without Ed25519.
func NewCompatibleKey() (crypto.Signer, error) {
	key, err := rsa.GenerateKey(rand.Reader, compatibleRSA)
	if err != nil {
		return nil, fmt.Errorf("generating an RSA key: %w", err)
	}
	return key, nil
}

// EncodeKey returns key as PKCS#8, PEM.
func EncodeKey(key crypto.Signer) ([]byte, error) {
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, fmt.Errorf("encoding the private key: %w", err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), nil
}

// ParseKey reads a private key: PKCS#8, or the older forms of RSA and EC keys, PEM.
func ParseKey(data []byte) (crypto.Signer, error) {
	block, _ := pem.Decode(data)
	if block == nil {
		return nil, errors.New("the private key is not PEM")
	}
	parsed, err := parsePrivate(block)
	if err != nil {
		return nil, fmt.Errorf("reading the private key: %w", err)
	}
	key, ok := parsed.(crypto.Signer)
	if !ok {
		return nil, fmt.Errorf("a %T does not sign", parsed)
	}
	if err := CheckPublicKey(key.Public()); err != nil {
		return nil, err
	}
	return key, nil
}

func parsePrivate(block *pem.Block) (any, error) {
	switch block.Type {
	case "PRIVATE KEY":
		return x509.ParsePKCS8PrivateKey(block.Bytes)
	case "RSA PRIVATE KEY":
		return x509.ParsePKCS1PrivateKey(block.Bytes)
	case "EC PRIVATE KEY":
		return x509.ParseECPrivateKey(block.Bytes)
	default:
		return nil, fmt.Errorf("%q is not a kind of private key", block.Type)
	}
}

// EncodePublicKey returns key as PKIX, PEM.
func EncodePublicKey(key crypto.PublicKey) ([]byte, error) {
	der, err := x509.MarshalPKIXPublicKey(key)
	if err != nil {
		return nil, fmt.Errorf("encoding the public key: %w", err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}), nil
}

// ParsePublicKey parses a public key: PKIX in PEM, or the 32 bytes of an Ed25519 key, the format of early
// versions.
func ParsePublicKey(data []byte) (crypto.PublicKey, error) {
	if len(data) == ed25519.PublicKeySize {
		return ed25519.PublicKey(data), CheckPublicKey(ed25519.PublicKey(data))
	}
	der, err := soleBlock(data, "PUBLIC KEY")
	if err != nil {
		return nil, err
	}
	key, err := x509.ParsePKIXPublicKey(der)
	if err != nil {
		return nil, fmt.Errorf("reading the public key: %w", err)
	}
	if err := CheckPublicKey(key); err != nil {
		return nil, err
	}
	return key, nil
}

// CheckPublicKey tells why key is not good enough: Ed25519, RSA from 2048 bits and ECDSA over P-256, P-384 or P-521 are.
func CheckPublicKey(key crypto.PublicKey) error {
	switch key := key.(type) {
	case ed25519.PublicKey:
		return checkEd25519(key)
	case *rsa.PublicKey:
		if bits := key.N.BitLen(); bits < minRSABits || bits > maxRSABits {
			return fmt.Errorf("an RSA key of %d bits is not allowed: it must have %d to %d", bits, minRSABits, maxRSABits)
		}
		return nil
	case *ecdsa.PublicKey:
		switch key.Curve {
		case elliptic.P256(), elliptic.P384(), elliptic.P521():
			return nil
		}
		return fmt.Errorf("the curve %s is not allowed: it must be P-256, P-384 or P-521", key.Curve.Params().Name)
	default:
		return fmt.Errorf("a key of type %T is not allowed: it must be Ed25519, RSA or ECDSA", key)
	}
}

// smallOrder are the keys for which anyone can forge signatures: the points of Ed25519 whose order divides 8, in all
// encodings, without the highest bit, the sign.
var smallOrder = []string{
	"0000000000000000000000000000000000000000000000000000000000000000",
	"0100000000000000000000000000000000000000000000000000000000000000",
	"26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05",
	"c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a",
	"ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
	"edffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
	"eeffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
}

func checkEd25519(key ed25519.PublicKey) error {
	if len(key) != ed25519.PublicKeySize {
		return fmt.Errorf("an Ed25519 key of %d bytes is not allowed: it has %d", len(key), ed25519.PublicKeySize)
	}
	point := bytes.Clone(key)
	point[len(point)-1] &= 0x7f
	if slices.Contains(smallOrder, hex.EncodeToString(point)) {
		return errors.New("an Ed25519 key of small order is not allowed: everybody can sign with it")
	}
	return nil
}

// sameKey compares two public keys of any type.
func sameKey(a, b crypto.PublicKey) bool {
	comparable, ok := a.(interface{ Equal(crypto.PublicKey) bool })
	return ok && comparable.Equal(b)
}
