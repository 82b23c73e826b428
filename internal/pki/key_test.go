// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package pki

import (
	"crypto"
	"crypto/ecdh"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"testing"
)

func TestKeyEncoding(t *testing.T) {
	for name, key := range map[string]crypto.Signer{
		"Ed25519": edKey(t), "RSA": rsaKey(t, 2048), "P-256": ecKey(t, elliptic.P256()),
	} {
		t.Run(name, func(t *testing.T) {
			private, err := EncodeKey(key)
			if err != nil {
				t.Fatal(err)
			}
			read, err := ParseKey(private)
			if err != nil {
				t.Fatal(err)
			}
			public, err := EncodePublicKey(read.Public())
			if err != nil {
				t.Fatal(err)
			}
			readPublic, err := ParsePublicKey(public)
			if err != nil {
				t.Fatal(err)
			}
			if !sameKey(readPublic, key.Public()) {
				t.Error("the key changed on the way")
			}
		})
	}
}

func TestParsePublicKeyRaw(t *testing.T) {
	raw := edKey(t).Public().(ed25519.PublicKey)
	key, err := ParsePublicKey(raw)
	if err != nil || !sameKey(key, raw) {
		t.Errorf("got %v, %v", key, err)
	}
}

func TestParseKeyInvalid(t *testing.T) {
	t.Setenv("GODEBUG", "rsa1024min=0")
	exchange, err := ecdh.X25519().GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(exchange)
	if err != nil {
		t.Fatal(err)
	}
	weak, err := EncodeKey(rsaKey(t, 1024))
	if err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		data []byte
		why  string
	}{
		"what is not PEM":          {data: []byte("x"), why: "not PEM"},
		"another kind of block":    {data: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE"}), why: "not a kind of private key"},
		"a key that does not sign": {data: pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), why: "does not sign"},
		"a weak key":               {data: weak, why: "1024 bits"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := ParseKey(test.data)
			wantRefusal(t, err, test.why)
		})
	}
}

func TestWeakKeys(t *testing.T) {
	forged := make([]byte, ed25519.SignatureSize)
	forged[0] = 1
	handshake := Handshake{Provider: "milan", Consumer: "rome", Nonce: NewNonce()}
	neutral := ed25519.PublicKey(append([]byte{1}, make([]byte, 31)...))
	if !ed25519.Verify(neutral, handshake.signedMessage(), forged) {
		t.Error("the library refuses such keys by now: this is not needed any more")
	}
	if err := handshake.Verify(neutral, forged); err == nil {
		t.Error("a signature that needs no key is accepted")
	}
	for _, encoded := range smallOrder {
		for _, sign := range []byte{0, 0x80} {
			key, err := hex.DecodeString(encoded)
			if err != nil || len(key) != ed25519.PublicKeySize {
				t.Fatalf("%q: %v", encoded, err)
			}
			key[len(key)-1] |= sign
			wantRefusal(t, CheckPublicKey(ed25519.PublicKey(key)), "small order")
			_, err = ParsePublicKey(key)
			wantRefusal(t, err, "small order")
			text, err := EncodePublicKey(ed25519.PublicKey(key))
			if err != nil {
				t.Fatal(err)
			}
			_, err = ParsePublicKey(text)
			wantRefusal(t, err, "small order")
		}
	}
	wantRefusal(t, CheckPublicKey(ed25519.PublicKey("short")), "5 bytes")
}
