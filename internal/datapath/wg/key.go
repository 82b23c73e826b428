// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package wg

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
	"io"
	"log/slog"
)

const keySize = 32

// PublicKey names a peer. Its text is base64, as the wg tool writes it.
type PublicKey [keySize]byte

// PrivateKey is the secret of a device, clamped. However it is printed, logged or marshalled, it does not show.
type PrivateKey [keySize]byte

// GeneratePrivateKey makes a key.
func GeneratePrivateKey() (PrivateKey, error) {
	key, err := ecdh.X25519().GenerateKey(rand.Reader)
	if err != nil {
		return PrivateKey{}, fmt.Errorf("generating a WireGuard key: %w", err)
	}
	return PrivateKey(key.Bytes()).clamped(), nil
}

// ParsePrivateKey reads a key in any form that users have it: 32 raw bytes, base64 with or without a line end (wg genkey),
// PKCS#8 as DER or PEM (openssl genpkey -algorithm x25519). What is stored is the raw form, key[:].
func ParsePrivateKey(data []byte) (PrivateKey, error) {
	raw, err := decodeKey(data, "PRIVATE KEY", func(der []byte) ([]byte, error) {
		parsed, err := x509.ParsePKCS8PrivateKey(der)
		if err != nil {
			return nil, errors.New("it is no PKCS#8 private key without password") // the parser's error could quote it
		}
		key, ok := parsed.(*ecdh.PrivateKey)
		if !ok || key.Curve() != ecdh.X25519() {
			return nil, fmt.Errorf("it is a %T, not one for X25519", parsed)
		}
		return key.Bytes(), nil
	})
	if err != nil {
		return PrivateKey{}, fmt.Errorf("parsing a WireGuard private key: %w", err)
	}
	return PrivateKey(raw).clamped(), nil
}

// ParsePublicKey reads a key in the same forms: raw, base64, and what openssl pkey -pubout writes.
func ParsePublicKey(data []byte) (PublicKey, error) {
	raw, err := decodeKey(data, "PUBLIC KEY", func(der []byte) ([]byte, error) {
		parsed, err := x509.ParsePKIXPublicKey(der)
		if err != nil {
			return nil, fmt.Errorf("reading PKIX: %w", err)
		}
		key, ok := parsed.(*ecdh.PublicKey)
		if !ok || key.Curve() != ecdh.X25519() {
			return nil, fmt.Errorf("it is a %T, not one for X25519", parsed)
		}
		return key.Bytes(), nil
	})
	if err != nil {
		return PublicKey{}, fmt.Errorf("parsing a WireGuard public key: %w", err)
	}
	return PublicKey(raw), nil
}

// decodeKey tells the forms apart: 32 bytes are raw whatever they look like; no DER is text.
func decodeKey(data []byte, pemType string, fromDER func([]byte) ([]byte, error)) ([]byte, error) {
	raw := data
	if len(data) != keySize {
		var err error
		if raw, err = decodeWrapped(data, pemType, fromDER); err != nil {
			return nil, err
		}
	}
	switch {
	case len(raw) != keySize:
		return nil, fmt.Errorf("it has %d bytes instead of %d", len(raw), keySize)
	case [keySize]byte(raw) == [keySize]byte{}:
		return nil, errors.New("it is all zero")
	}
	return raw, nil
}

func decodeWrapped(data []byte, pemType string, fromDER func([]byte) ([]byte, error)) ([]byte, error) {
	const derSequence = 0x30
	text := bytes.TrimSpace(data)
	if bytes.HasPrefix(text, []byte("-----BEGIN ")) {
		block, rest := pem.Decode(text)
		switch {
		case block == nil:
			return nil, errors.New("its PEM is broken")
		case block.Type != pemType:
			return nil, fmt.Errorf("its PEM is a %q, not a %q", block.Type, pemType)
		case len(bytes.TrimSpace(rest)) > 0:
			return nil, errors.New("something follows its PEM")
		}
		return fromWholeDER(block.Bytes, fromDER)
	}
	if raw, err := base64.StdEncoding.Strict().DecodeString(string(text)); err == nil {
		return raw, nil
	}
	if len(data) > 0 && data[0] == derSequence {
		return fromWholeDER(data, fromDER)
	}
	return nil, errors.New("it is neither 32 raw bytes nor base64 nor X25519 in DER or PEM")
}

// fromWholeDER refuses what follows a key, which the parsers of x509 pass over.
func fromWholeDER(der []byte, parse func([]byte) ([]byte, error)) ([]byte, error) {
	var whole asn1.RawValue
	if rest, err := asn1.Unmarshal(der, &whole); err != nil || len(rest) > 0 {
		return nil, errors.New("its DER is broken")
	}
	return parse(der)
}

// Public is the public half.
func (k PrivateKey) Public() PublicKey {
	return PublicKey(k.ecdh().PublicKey().Bytes())
}

// reaches tells whether a secret can be shared with a peer: not with the few points of low order.
func (k PrivateKey) reaches(peer PublicKey) bool {
	point, err := ecdh.X25519().NewPublicKey(peer[:])
	if err != nil {
		return false
	}
	_, err = k.ecdh().ECDH(point)
	return err == nil
}

func (k PrivateKey) ecdh() *ecdh.PrivateKey {
	key, err := ecdh.X25519().NewPrivateKey(k[:])
	if err != nil {
		panic(err) // any 32 bytes are a key
	}
	return key
}

// clamped has the bits that every X25519 key has, so that equal keys are equal bytes.
func (k PrivateKey) clamped() PrivateKey {
	k[0] &= 0xf8
	k[31] = k[31]&0x7f | 0x40
	return k
}

const redacted = "(private key)"

// Format shows nothing of the key, whatever the verb.
func (k PrivateKey) Format(s fmt.State, _ rune) { _, _ = io.WriteString(s, redacted) }

// String shows nothing of the key.
func (k PrivateKey) String() string { return redacted }

// LogValue shows nothing of the key.
func (k PrivateKey) LogValue() slog.Value { return slog.StringValue(redacted) }

// MarshalText shows nothing of the key.
func (k PrivateKey) MarshalText() ([]byte, error) { return []byte(redacted), nil }

func (k PublicKey) String() string { return base64.StdEncoding.EncodeToString(k[:]) }

// MarshalText is the text of String, in logs and JSON too.
func (k PublicKey) MarshalText() ([]byte, error) { return []byte(k.String()), nil }
