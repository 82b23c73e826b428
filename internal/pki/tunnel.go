// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package pki

import (
	"bytes"
	"crypto/ecdh"
	"crypto/rand"
	"crypto/x509"
	"encoding/asn1"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
)

// tunnelKeySize is the size of both halves of an X25519 key pair, in bytes.
const tunnelKeySize = 32

// NewTunnelKey makes the X25519 key pair of a WireGuard tunnel.
func NewTunnelKey() (private, public [tunnelKeySize]byte, err error) {
	key, err := ecdh.X25519().GenerateKey(rand.Reader)
	if err != nil {
		return private, public, fmt.Errorf("generating an X25519 key: %w", err)
	}
	copy(private[:], key.Bytes())
	copy(public[:], key.PublicKey().Bytes())
	return private, public, nil
}

// ParseTunnelKey parses a private X25519 key in any usual format: 32 bytes, the base64 text of `wg genkey`, or
// the output of `openssl genpkey -algorithm x25519`, as PEM, DER or base64 of DER. No error reveals any part of
// the key.
func ParseTunnelKey(data []byte) ([tunnelKeySize]byte, error) {
	key, err := tunnelKey(data, "PRIVATE KEY", func(der []byte) ([]byte, bool) {
		parsed, err := x509.ParsePKCS8PrivateKey(der)
		key, ok := parsed.(*ecdh.PrivateKey)
		if err != nil || !ok || key.Curve() != ecdh.X25519() {
			return nil, false
		}
		return key.Bytes(), true
	})
	if err != nil {
		return key, err
	}
	own := key // the bits that X25519 does not clamp
	own[0] &= 0xf8
	own[31] &= 0x3f
	if own == [tunnelKeySize]byte{} {
		return own, errors.New("it is empty: all its bytes are 0")
	}
	return key, nil
}

// ParseTunnelPublicKey parses a public X25519 key in the same formats: of `wg pubkey` and `openssl pkey -pubout`.
func ParseTunnelPublicKey(data []byte) ([tunnelKeySize]byte, error) {
	key, err := tunnelKey(data, "PUBLIC KEY", func(der []byte) ([]byte, bool) {
		parsed, err := x509.ParsePKIXPublicKey(der)
		key, ok := parsed.(*ecdh.PublicKey)
		if err != nil || !ok || key.Curve() != ecdh.X25519() {
			return nil, false
		}
		return key.Bytes(), true
	})
	if err != nil {
		return key, err
	}
	if !hasSecrets(key) {
		return [tunnelKeySize]byte{}, errors.New("invalid public key: it is 0 or another point of low order")
	}
	return key, nil
}

// hasSecrets is false for low-order points, with which every private key has the same shared secret.
func hasSecrets(public [tunnelKeySize]byte) bool {
	anyone, err := ecdh.X25519().NewPrivateKey(bytes.Repeat([]byte{8}, tunnelKeySize))
	if err != nil {
		return false
	}
	point, err := ecdh.X25519().NewPublicKey(public[:])
	if err != nil {
		return false
	}
	_, err = anyone.ECDH(point)
	return err == nil
}

// TunnelPublicKey is the public half of a private key.
func TunnelPublicKey(private [tunnelKeySize]byte) ([tunnelKeySize]byte, error) {
	var public [tunnelKeySize]byte
	key, err := ecdh.X25519().NewPrivateKey(private[:])
	if err != nil {
		return public, errors.New("the private key is not an X25519 key")
	}
	copy(public[:], key.PublicKey().Bytes())
	return public, nil
}

// tunnelKey distinguishes the formats: 32 bytes are always a raw key. Errors of parsers are not wrapped: they may quote
// their input.
func tunnelKey(data []byte, kind string, fromDER func([]byte) ([]byte, bool)) (out [tunnelKeySize]byte, err error) {
	raw := data
	if len(data) != tunnelKeySize {
		if raw, err = unwrapKey(data, kind); err != nil {
			return out, err
		}
	}
	if len(raw) != tunnelKeySize {
		key, ok := fromDER(raw)
		if !ok || !isComplete(raw) {
			return out, fmt.Errorf("not an X25519 key (%d bytes): must be 32 bytes, their base64 text, PEM or DER", len(data))
		}
		raw = key
	}
	copy(out[:], raw)
	return out, nil
}

// unwrapKey decodes PEM or base64, or returns the data unchanged.
func unwrapKey(data []byte, kind string) ([]byte, error) {
	text := bytes.TrimSpace(data)
	if decoded, err := base64.StdEncoding.Strict().AppendDecode(nil, text); err == nil {
		return decoded, nil
	}
	if !bytes.HasPrefix(text, []byte("-----BEGIN ")) {
		return data, nil
	}
	block, rest := pem.Decode(text)
	switch {
	case block == nil || len(bytes.TrimSpace(rest)) > 0:
		return nil, errors.New("it is broken PEM, or more than one")
	case block.Type != kind:
		return nil, fmt.Errorf("the PEM is not a %s", kind)
	}
	return block.Bytes, nil
}

// isComplete is false for DER with trailing data, which the parsers of x509 ignore.
func isComplete(der []byte) bool {
	var all asn1.RawValue
	rest, err := asn1.Unmarshal(der, &all)
	return err == nil && len(rest) == 0
}
