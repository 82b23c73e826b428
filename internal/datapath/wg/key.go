// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package wg

import (
	"crypto/ecdh"
	"encoding/base64"
	"fmt"
	"io"
	"log/slog"
)

const keySize = 32

// PublicKey identifies a peer. Its text is base64, as printed by the wg tool.
type PublicKey [keySize]byte

// PrivateKey is the secret of a device. Printing, logging and marshalling redact it.
type PrivateKey [keySize]byte

// Public returns the public key.
func (k PrivateKey) Public() PublicKey {
	return PublicKey(k.toECDH().PublicKey().Bytes())
}

// canReach reports whether a shared secret with the peer exists: not for the few points of low order.
func (k PrivateKey) canReach(peer PublicKey) bool {
	point, err := ecdh.X25519().NewPublicKey(peer[:])
	if err != nil {
		return false
	}
	_, err = k.toECDH().ECDH(point)
	return err == nil
}

func (k PrivateKey) toECDH() *ecdh.PrivateKey {
	key, err := ecdh.X25519().NewPrivateKey(k[:])
	if err != nil {
		panic(err) // any 32 bytes are a valid key
	}
	return key
}

// clampScalar sets the bits fixed in every X25519 key, so that equal keys are equal bytes.
func (k PrivateKey) clampScalar() PrivateKey {
	k[0] &= 0xf8
	k[31] = k[31]&0x7f | 0x40
	return k
}

const redacted = "(private key)"

// Format redacts the key for every verb.
func (k PrivateKey) Format(s fmt.State, _ rune) { _, _ = io.WriteString(s, redacted) }

// String returns a placeholder instead of the key.
func (k PrivateKey) String() string { return redacted }

// LogValue returns a placeholder instead of the key.
func (k PrivateKey) LogValue() slog.Value { return slog.StringValue(redacted) }

// MarshalText returns a placeholder instead of the key.
func (k PrivateKey) MarshalText() ([]byte, error) { return []byte(redacted), nil }

func (k PublicKey) String() string { return base64.StdEncoding.EncodeToString(k[:]) }

// MarshalText returns the base64 text, for logs and JSON.
func (k PublicKey) MarshalText() ([]byte, error) { return []byte(k.String()), nil }
