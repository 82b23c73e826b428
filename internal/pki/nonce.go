// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package pki

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
)

const (
	// nonceBytes are the random bytes of a nonce; as text they are 88 characters.
	nonceBytes = 64
	// nonceDomain is the prefix of the signed message (domain separation). No other message signed with these keys has this
	// prefix: a certificate request begins with the tag of a sequence, a signed message of TLS 1.3 with 64 spaces.
	nonceDomain = "liqo-nonce-v1"
)

// NewNonce makes a nonce: 64 random bytes, base64.
func NewNonce() []byte {
	var random [nonceBytes]byte
	_, _ = rand.Read(random[:]) // never fails
	return base64.StdEncoding.AppendEncode(nil, random[:])
}

// CheckNonce tells why text is no nonce as NewNonce makes them.
func CheckNonce(text []byte) error {
	decoded, err := base64.StdEncoding.Strict().DecodeString(string(text))
	if err != nil || len(decoded) != nonceBytes || len(text) != base64.StdEncoding.EncodedLen(nonceBytes) {
		return fmt.Errorf("a nonce is %d bytes in base64, %d characters", nonceBytes, base64.StdEncoding.EncodedLen(nonceBytes))
	}
	return nil
}

// NonceEntry returns the name under which a used nonce is stored.
func NonceEntry(nonce []byte) string { return fmt.Sprintf("%x", sha256.Sum256(nonce)) }

// Handshake is the message signed by a consumer to prove possession of its key to a provider.
type Handshake struct {
	// Provider and Consumer are the IDs of the clusters: a signature cannot be replayed between other
	// clusters.
	Provider, Consumer string
	// Nonce is the text that the provider generated.
	Nonce []byte
	// Legacy is the form of Liqo before the signature was bound to the clusters: the nonce alone.
	Legacy bool
}

// signedMessage returns the signed bytes. Each part is prefixed by its length: no two handshakes have the same message.
func (h Handshake) signedMessage() []byte {
	if h.Legacy {
		return h.Nonce
	}
	out := []byte(nonceDomain)
	for _, part := range [][]byte{[]byte(h.Provider), []byte(h.Consumer), h.Nonce} {
		out = binary.BigEndian.AppendUint32(out, uint32(len(part)))
		out = append(out, part...)
	}
	return out
}

// checkFields rejects everything except a nonce between two clusters: nothing else must be signed.
func (h Handshake) checkFields() error {
	if h.Provider == "" || h.Consumer == "" {
		return errors.New("a nonce is signed between two clusters, and one is missing")
	}
	return CheckNonce(h.Nonce)
}

// Sign proves possession of key. Two signatures may differ: compare them by Verify.
func (h Handshake) Sign(key crypto.Signer) ([]byte, error) {
	if err := h.checkFields(); err != nil {
		return nil, err
	}
	if err := CheckPublicKey(key.Public()); err != nil {
		return nil, err
	}
	message, hash := h.signedMessage(), crypto.Hash(0)
	if _, ok := key.Public().(ed25519.PublicKey); !ok {
		sum := sha256.Sum256(message)
		message, hash = sum[:], crypto.SHA256
	}
	signature, err := key.Sign(rand.Reader, message, hash)
	if err != nil {
		return nil, fmt.Errorf("signing the nonce: %w", err)
	}
	return signature, nil
}

// Verify returns why signature does not prove possession of the private part of key.
func (h Handshake) Verify(key crypto.PublicKey, signature []byte) error {
	if err := h.checkFields(); err != nil {
		return err
	}
	if err := CheckPublicKey(key); err != nil {
		return err
	}
	message := h.signedMessage()
	sum := sha256.Sum256(message)
	ok := false
	switch key := key.(type) {
	case ed25519.PublicKey:
		ok = len(key) == ed25519.PublicKeySize && ed25519.Verify(key, message, signature)
	case *rsa.PublicKey:
		ok = rsa.VerifyPKCS1v15(key, crypto.SHA256, sum[:], signature) == nil
	case *ecdsa.PublicKey:
		ok = ecdsa.VerifyASN1(key, sum[:], signature)
	}
	if !ok {
		return fmt.Errorf("the signature is not one of this key over the nonce of provider %q for consumer %q", h.Provider, h.Consumer)
	}
	return nil
}

// Fingerprint tells keys apart: the SHA-256 of the key as PKIX.
func Fingerprint(key crypto.PublicKey) (string, error) {
	encoded, err := EncodePublicKey(key)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%x", sha256.Sum256(encoded)), nil
}
