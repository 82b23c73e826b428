// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package pki

import (
	"bytes"
	"crypto/ecdh"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"slices"
	"strings"
	"testing"
)

// One pair of openssl in its forms (genpkey -algorithm x25519, pkey -pubout), and of the same key what wg genkey and wg pubkey write.
const (
	privatePEM  = "-----BEGIN PRIVATE KEY-----\nMC4CAQAwBQYDK2VuBCIEIAho7p+2ZE0NomIb0UEKEvzQTqi/YORuxfdU44HBqAZH\n-----END PRIVATE KEY-----\n"
	publicPEM   = "-----BEGIN PUBLIC KEY-----\nMCowBQYDK2VuAyEAuRsS+7Pek/FcxsoEjNEBgZrC2bdxZ0rSHM4FNMuFiX8=\n-----END PUBLIC KEY-----\n"
	privateDER  = "MC4CAQAwBQYDK2VuBCIEIAho7p+2ZE0NomIb0UEKEvzQTqi/YORuxfdU44HBqAZH"
	privateText = "CGjun7ZkTQ2iYhvRQQoS/NBOqL9g5G7F91TjgcGoBkc="
	publicText  = "uRsS+7Pek/FcxsoEjNEBgZrC2bdxZ0rSHM4FNMuFiX8="
	// Its base64 begins like DER: 0x30, then the length of the rest, line end included.
	trickyText = "0+jun7ZkTQ2iYhvRQQoS/NBOqL9g5G7F91TjgcGoBkc=\n"

	encryptedPEM = `-----BEGIN ENCRYPTED PRIVATE KEY-----
MIGbMFcGCSqGSIb3DQEFDTBKMCkGCSqGSIb3DQEFDDAcBAiBSSHPCir0KAICCAAw
DAYIKoZIhvcNAgkFADAdBglghkgBZQMEASoEEHUsdreJGvczxuDoh/l8cEkEQPnB
54S+T+LFPajuwTEaNM+BHVTAATJgGnTNzjNHdzlhaJ1DBpFID3c/21Sy6MXi2PUt
7c4wMWxm9TS23kU7sgI=
-----END ENCRYPTED PRIVATE KEY-----
`
)

func fromBase64(t testing.TB, text string) []byte {
	t.Helper()
	data, err := base64.StdEncoding.DecodeString(strings.TrimSpace(text))
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func TestTunnelKeyForms(t *testing.T) {
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
		"text of Windows":        func(raw, _ []byte, _ string) []byte { return []byte(base64.StdEncoding.EncodeToString(raw) + "\r\n") },
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
	tricky, err := ParseTunnelKey([]byte(trickyText))
	if err != nil || !bytes.Equal(tricky[:], fromBase64(t, trickyText)) {
		t.Errorf("base64 that begins like DER: %v", err)
	}
}

func TestTunnelKeyOpenssl(t *testing.T) {
	private, err := ParseTunnelKey([]byte(privatePEM))
	if err != nil || base64.StdEncoding.EncodeToString(private[:]) != privateText {
		t.Errorf("private key: %v", err)
	}
	public, err := ParseTunnelPublicKey([]byte(publicPEM))
	if err != nil || base64.StdEncoding.EncodeToString(public[:]) != publicText {
		t.Errorf("public key: %v", err)
	}
	if got, err := TunnelPublicKey(private); err != nil || got != public {
		t.Errorf("public half: %v", err)
	}
}

// The vector of RFC 7748, 6.1.
func TestTunnelPublicKey(t *testing.T) {
	private, err := ParseTunnelKey([]byte("dwdtCnMYpX08FsFyUbJmRd9ML4frwJkqsXf7pR25LCo="))
	if err != nil {
		t.Fatal(err)
	}
	public, err := TunnelPublicKey(private)
	if want := fromBase64(t, "hSDwCYkwp1R0i33ctD73Wg2/Og0mOBr066SpjqqbTmo="); err != nil || !bytes.Equal(public[:], want) {
		t.Errorf("the public half is %x, %v; want %x", public, err, want)
	}
}

func TestTunnelKeyInvalid(t *testing.T) {
	_, signing, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	other, err := x509.MarshalPKCS8PrivateKey(signing)
	if err != nil {
		t.Fatal(err)
	}
	der := fromBase64(t, privateDER)
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
		"zeros as text":        []byte(base64.StdEncoding.EncodeToString(make([]byte, 32))),
		"two lines":            []byte(privateText + "\n" + privateText + "\n"),
		"text with more bits":  []byte(strings.Replace(privateText, "kc=", "kd=", 1)),
		"hex":                  fmt.Appendf(nil, "%x", fromBase64(t, privateText)),
		"an encrypted key":     []byte(encryptedPEM),
		"two PEMs":             []byte(privatePEM + publicPEM),
		"two other PEMs":       []byte(publicPEM + privatePEM),
		"words before PEM":     []byte("words\n" + privatePEM),
		"broken PEM":           []byte(privatePEM[:60]),
		"cut DER":              der[:len(der)-1],
		"longer DER":           append(slices.Clone(der), 0),
		"longer DER as text":   []byte(base64.StdEncoding.EncodeToString(append(slices.Clone(der), 0))),
	} {
		for what, parse := range map[string]func([]byte) ([32]byte, error){"private": ParseTunnelKey, "public": ParseTunnelPublicKey} {
			_, err := parse(data)
			if err == nil {
				t.Errorf("%s is read as a %s key", name, what)
			} else if strings.Contains(err.Error(), "secret") || strings.Contains(err.Error(), privateText[:10]) {
				t.Errorf("%s: the error tells what is in it: %v", name, err)
			}
		}
	}
	if _, err := ParseTunnelKey([]byte(publicPEM)); err == nil {
		t.Error("a public key is read as a private one")
	}
	if _, err := ParseTunnelPublicKey([]byte(privatePEM)); err == nil {
		t.Error("a private key is read as a public one")
	}
	onlyFixed := [32]byte{0: 7, 31: 0xc0} // the bits that X25519 sets or ignores
	if _, err := ParseTunnelKey(onlyFixed[:]); err == nil {
		t.Error("a private key without a bit of its own is read")
	}
	nowhere := [32]byte{1} // a point of low order, with which every secret is the same
	if _, err := ParseTunnelPublicKey(nowhere[:]); err == nil {
		t.Error("a point of low order is read as a public key")
	}
}

func FuzzParseTunnelKey(f *testing.F) {
	f.Add([]byte("-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n"))
	f.Add(bytes.Repeat([]byte{7}, 32))
	for _, text := range []string{privateText, trickyText, privatePEM, publicPEM, encryptedPEM, privateDER, "0*", "-----BEGIN "} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		private, err := ParseTunnelKey(data)
		if err != nil {
			return
		}
		public, err := TunnelPublicKey(private)
		if err != nil {
			t.Fatalf("%q is read and has no public half: %v", data, err)
		}
		for name, form := range map[string][]byte{"raw": private[:], "text": []byte(base64.StdEncoding.EncodeToString(private[:]) + "\n")} {
			if again, err := ParseTunnelKey(form); err != nil || again != private {
				t.Fatalf("its %s form is read as another key, %v", name, err)
			}
		}
		if again, err := ParseTunnelPublicKey([]byte(base64.StdEncoding.EncodeToString(public[:]))); err != nil || again != public {
			t.Fatalf("its public half is read as another one, %v", err)
		}
	})
}
