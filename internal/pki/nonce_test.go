// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package pki

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"strings"
	"testing"
)

func signers(t testing.TB) map[string]crypto.Signer {
	t.Helper()
	out := map[string]crypto.Signer{}
	for name, generate := range map[string]func() (crypto.Signer, error){
		"Ed25519": NewKey,
		"RSA":     NewCompatibleKey,
		"P-256":   func() (crypto.Signer, error) { return ecdsa.GenerateKey(elliptic.P256(), rand.Reader) },
		"P-521":   func() (crypto.Signer, error) { return ecdsa.GenerateKey(elliptic.P521(), rand.Reader) },
	} {
		key, err := generate()
		if err != nil {
			t.Fatal(err)
		}
		out[name] = key
	}
	return out
}

func TestHandshakeProof(t *testing.T) {
	for name, key := range signers(t) {
		other := signers(t)[name]
		t.Run(name, func(t *testing.T) {
			h := Handshake{Provider: "milan", Consumer: "rome", Nonce: NewNonce()}
			signature, err := h.Sign(key)
			if err != nil {
				t.Fatal(err)
			}
			legacy := h
			legacy.Legacy = true
			old, err := legacy.Sign(key)
			if err != nil {
				t.Fatal(err)
			}
			for name, test := range map[string]struct {
				edit      func(*Handshake)
				key       crypto.PublicKey
				signature []byte
				ok        bool
			}{
				"as signed":                        {ok: true},
				"of the legacy form as that":       {edit: func(h *Handshake) { h.Legacy = true }, signature: old, ok: true},
				"of the legacy form as the new":    {signature: old},
				"of the new form as the legacy":    {edit: func(h *Handshake) { h.Legacy = true }},
				"at another provider":              {edit: func(h *Handshake) { h.Provider = "turin" }},
				"for another consumer":             {edit: func(h *Handshake) { h.Consumer = "turin" }},
				"the other way round":              {edit: func(h *Handshake) { h.Provider, h.Consumer = h.Consumer, h.Provider }},
				"with the border of the IDs moved": {edit: func(h *Handshake) { h.Provider, h.Consumer = "milanr", "ome" }},
				"of another nonce":                 {edit: func(h *Handshake) { h.Nonce = NewNonce() }},
				"with another key":                 {key: other.Public()},
				"with no signature":                {signature: []byte{}},
				"with a longer signature":          {signature: append(bytes.Clone(signature), 0)},
				"of no provider":                   {edit: func(h *Handshake) { h.Provider = "" }},
				"with no key":                      {key: "none"},
			} {
				t.Run(name, func(t *testing.T) {
					h, public, shown := h, key.Public(), signature
					if test.edit != nil {
						test.edit(&h)
					}
					if test.key != nil {
						public = test.key
					}
					if test.signature != nil {
						shown = test.signature
					}
					if err := h.Verify(public, shown); (err == nil) != test.ok {
						t.Errorf("got %v", err)
					}
				})
			}
		})
	}
}

// What other programs make and read.
func TestHandshakeFormat(t *testing.T) {
	nonce := bytes.Repeat([]byte("A"), 86)
	nonce = append(nonce, "=="...)
	h := Handshake{Provider: "p", Consumer: "consumer", Nonce: nonce}
	want := "liqo-nonce-v1\x00\x00\x00\x01p\x00\x00\x00\x08consumer\x00\x00\x00\x58" + string(nonce)
	if got := string(h.signedMessage()); got != want {
		t.Errorf("the message is %q", got)
	}
	h.Legacy = true
	if got := h.signedMessage(); !bytes.Equal(got, nonce) {
		t.Errorf("the legacy message is %q", got)
	}
	for name, key := range signers(t) {
		signature, err := h.Sign(key)
		if err != nil {
			t.Fatal(err)
		}
		ok, sum := false, sha256.Sum256(nonce)
		switch public := key.Public().(type) {
		case ed25519.PublicKey:
			ok = ed25519.Verify(public, nonce, signature)
		case *rsa.PublicKey:
			ok = rsa.VerifyPKCS1v15(public, crypto.SHA256, sum[:], signature) == nil
		case *ecdsa.PublicKey:
			ok = ecdsa.VerifyASN1(public, sum[:], signature)
		}
		if !ok {
			t.Errorf("%s: others cannot verify the signature over the text", name)
		}
	}
}

func TestSignNonceOnly(t *testing.T) {
	key, err := NewKey()
	if err != nil {
		t.Fatal(err)
	}
	nonce := string(NewNonce())
	for name, text := range map[string]string{
		"nothing":              "",
		"what TLS has signed":  strings.Repeat(" ", 64) + "TLS 1.3, client CertificateVerify\x00" + strings.Repeat("x", 32),
		"bytes, not text":      strings.Repeat("\x30", 64),
		"a shorter one":        nonce[4:],
		"a longer one":         nonce + nonce,
		"one with a line feed": nonce + "\n",
		"one broken in two":    nonce[:44] + "\n" + nonce[44:],
		"loose trailing bits":  strings.Repeat("A", 85) + "B==",
	} {
		for _, legacy := range []bool{false, true} {
			h := Handshake{Provider: "milan", Consumer: "rome", Nonce: []byte(text), Legacy: legacy}
			if _, err := h.Sign(key); err == nil {
				t.Errorf("%s is signed, legacy %v", name, legacy)
			}
		}
	}
	if err := CheckNonce([]byte(nonce)); err != nil {
		t.Errorf("a nonce is refused: %v", err)
	}
}

func TestNonceRandom(t *testing.T) {
	if bytes.Equal(NewNonce(), NewNonce()) {
		t.Error("two nonces are the same")
	}
}

func FuzzHandshakeMessagesNeverMeet(f *testing.F) {
	f.Add("milan", "rome", "n", "milanr", "ome", "n")
	f.Add("a", "", "", "", "a", "")
	f.Fuzz(func(t *testing.T, p1, c1, n1, p2, c2, n2 string) {
		a, b := Handshake{Provider: p1, Consumer: c1, Nonce: []byte(n1)}, Handshake{Provider: p2, Consumer: c2, Nonce: []byte(n2)}
		same := p1 == p2 && c1 == c2 && n1 == n2
		if bytes.Equal(a.signedMessage(), b.signedMessage()) != same {
			t.Errorf("%q %q %q and %q %q %q", p1, c1, n1, p2, c2, n2)
		}
	})
}

func FuzzVerifyNeverAcceptsWhatNobodySigned(f *testing.F) {
	keys := signers(f)
	nonce := NewNonce()
	f.Add([]byte{}, []byte(nil))
	f.Add(bytes.Repeat([]byte{0}, 64), nonce)
	f.Fuzz(func(t *testing.T, signature, text []byte) {
		for name, key := range keys {
			for _, legacy := range []bool{false, true} {
				if (Handshake{Provider: "milan", Consumer: "rome", Nonce: text, Legacy: legacy}).Verify(key.Public(), signature) == nil {
					t.Errorf("%s accepts %x over %q", name, signature, text)
				}
			}
		}
	})
}
