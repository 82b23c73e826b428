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

// PublicKey names a peer. Its text is base64, as the wg tool writes it.
type PublicKey [keySize]byte

// PrivateKey is the secret of a device. However it is printed, logged or marshalled, it does not show.
type PrivateKey [keySize]byte

// Public is the public half.
func (k PrivateKey) Public() PublicKey {
	return PublicKey(k.toECDH().PublicKey().Bytes())
}

// canReach tells whether a secret can be shared with a peer: not with the few points of low order.
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
		panic(err) // any 32 bytes are a key
	}
	return key
}

// clampScalar has the bits that every X25519 key has, so that equal keys are equal bytes.
func (k PrivateKey) clampScalar() PrivateKey {
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
