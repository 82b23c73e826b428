// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package cred

import (
	"bytes"
	"crypto/ecdh"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"strings"
	"testing"
)

func TestTunnelKeysAreReadInEveryForm(t *testing.T) {
	private, public, err := NewTunnelKey()
	if err != nil {
		t.Fatal(err)
	}
	key, err := ecdh.X25519().NewPrivateKey(private[:])
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	shown, err := x509.MarshalPKIXPublicKey(key.PublicKey())
	if err != nil {
		t.Fatal(err)
	}
	for name, form := range map[string]func(raw, der []byte, kind string) []byte{
		"32 bytes":               func(raw, _ []byte, _ string) []byte { return raw },
		"text":                   func(raw, _ []byte, _ string) []byte { return []byte(base64.StdEncoding.EncodeToString(raw)) },
		"text of a line":         func(raw, _ []byte, _ string) []byte { return []byte(base64.StdEncoding.EncodeToString(raw) + "\n") },
		"PEM":                    func(_, der []byte, kind string) []byte { return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}) },
		"DER":                    func(_, der []byte, _ string) []byte { return der },
		"DER in base64, in text": func(_, der []byte, _ string) []byte { return []byte(base64.StdEncoding.EncodeToString(der)) },
	} {
		if got, err := ParseTunnelKey(form(private[:], secret, "PRIVATE KEY")); err != nil || got != private {
			t.Errorf("private key as %s: %v", name, err)
		}
		if got, err := ParseTunnelPublicKey(form(public[:], shown, "PUBLIC KEY")); err != nil || got != public {
			t.Errorf("public key as %s: %v", name, err)
		}
	}
	if got, err := TunnelPublicKey(private); err != nil || got != public {
		t.Errorf("public half: %v", err)
	}
}

func TestWhatIsNoTunnelKeyIsRefusedAndNotQuoted(t *testing.T) {
	_, signing, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	other, err := x509.MarshalPKCS8PrivateKey(signing)
	if err != nil {
		t.Fatal(err)
	}
	for name, data := range map[string][]byte{
		"nothing":              nil,
		"zeros":                make([]byte, 32),
		"31 bytes":             bytes.Repeat([]byte{7}, 31),
		"33 bytes":             bytes.Repeat([]byte{7}, 33),
		"short text":           []byte(base64.StdEncoding.EncodeToString([]byte("secretsecret"))),
		"words":                []byte("secret words that are no key at all"),
		"a key of another use": pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: other}),
		"another PEM":          pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: []byte("secret")}),
		"PEM of nonsense":      pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: []byte("secret")}),
	} {
		for what, parse := range map[string]func([]byte) ([32]byte, error){"private": ParseTunnelKey, "public": ParseTunnelPublicKey} {
			_, err := parse(data)
			if err == nil {
				t.Errorf("%s is read as a %s key", name, what)
			} else if strings.Contains(err.Error(), "secret") {
				t.Errorf("%s: the error tells what is in it: %v", name, err)
			}
		}
	}
}

func FuzzParseTunnelKey(f *testing.F) {
	f.Add([]byte("-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n"))
	f.Add(bytes.Repeat([]byte{7}, 32))
	f.Fuzz(func(t *testing.T, data []byte) {
		if private, err := ParseTunnelKey(data); err == nil {
			if _, err := TunnelPublicKey(private); err != nil {
				t.Errorf("%q is read and has no public half: %v", data, err)
			}
		}
		_, _ = ParseTunnelPublicKey(data)
	})
}
