// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package cred

import (
	"bytes"
	"crypto/ecdh"
	"crypto/rand"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
)

// tunnelKeySize is that of both halves of an X25519 key pair, in bytes.
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

// ParseTunnelKey reads a private X25519 key as people have it: 32 bytes, the base64 text of `wg genkey`, or what
// `openssl genpkey -algorithm x25519` writes, PEM or DER. No error tells anything of the key.
func ParseTunnelKey(data []byte) ([tunnelKeySize]byte, error) {
	return tunnelKey(data, "PRIVATE KEY", func(der []byte) ([]byte, bool) {
		parsed, err := x509.ParsePKCS8PrivateKey(der)
		key, ok := parsed.(*ecdh.PrivateKey)
		if err != nil || !ok || key.Curve() != ecdh.X25519() {
			return nil, false
		}
		return key.Bytes(), true
	})
}

// ParseTunnelPublicKey reads a public X25519 key in the same forms, those of `wg pubkey` and `openssl pkey -pubout`.
func ParseTunnelPublicKey(data []byte) ([tunnelKeySize]byte, error) {
	return tunnelKey(data, "PUBLIC KEY", func(der []byte) ([]byte, bool) {
		parsed, err := x509.ParsePKIXPublicKey(der)
		key, ok := parsed.(*ecdh.PublicKey)
		if err != nil || !ok || key.Curve() != ecdh.X25519() {
			return nil, false
		}
		return key.Bytes(), true
	})
}

// TunnelPublicKey is the public half of a private key.
func TunnelPublicKey(private [tunnelKeySize]byte) ([tunnelKeySize]byte, error) {
	var public [tunnelKeySize]byte
	key, err := ecdh.X25519().NewPrivateKey(private[:])
	if err != nil {
		return public, errors.New("the private key is no X25519 key")
	}
	copy(public[:], key.PublicKey().Bytes())
	return public, nil
}

// tunnelKey reads a key in one of its forms. Errors of parsers are not passed on: they may quote what they read.
func tunnelKey(data []byte, kind string, fromDER func([]byte) ([]byte, bool)) ([tunnelKeySize]byte, error) {
	var out [tunnelKeySize]byte
	raw := data
	if len(data) != tunnelKeySize {
		text := bytes.TrimSpace(data)
		if decoded, err := base64.StdEncoding.AppendDecode(nil, text); err == nil {
			raw = decoded
		} else if block, _ := pem.Decode(text); block != nil {
			if block.Type != kind {
				return out, fmt.Errorf("the PEM is no %s", kind)
			}
			raw = block.Bytes
		}
	}
	if len(raw) != tunnelKeySize {
		key, ok := fromDER(raw)
		if !ok {
			return out, fmt.Errorf("it has %d bytes and is no X25519 key: 32 bytes, their base64 text, PEM and DER are read", len(data))
		}
		raw = key
	}
	copy(out[:], raw)
	if out == [tunnelKeySize]byte{} {
		return out, errors.New("it is empty: all its bytes are 0")
	}
	return out, nil
}
