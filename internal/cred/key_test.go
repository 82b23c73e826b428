// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package cred

import (
	"crypto"
	"crypto/ecdh"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"testing"
)

func TestKeysSurviveEncoding(t *testing.T) {
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

func TestParsePublicKeyTakes32RawBytes(t *testing.T) {
	raw := edKey(t).Public().(ed25519.PublicKey)
	key, err := ParsePublicKey(raw)
	if err != nil || !sameKey(key, raw) {
		t.Errorf("got %v, %v", key, err)
	}
}

func TestParseKeyRefuses(t *testing.T) {
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
