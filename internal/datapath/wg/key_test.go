// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package wg

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"
)

// One pair of openssl in all its forms (genpkey -algorithm x25519, pkey -pubout), and of the same key what wg genkey and
// wg pubkey would write.
const (
	privatePEM  = "-----BEGIN PRIVATE KEY-----\nMC4CAQAwBQYDK2VuBCIEIAho7p+2ZE0NomIb0UEKEvzQTqi/YORuxfdU44HBqAZH\n-----END PRIVATE KEY-----\n"
	publicPEM   = "-----BEGIN PUBLIC KEY-----\nMCowBQYDK2VuAyEAuRsS+7Pek/FcxsoEjNEBgZrC2bdxZ0rSHM4FNMuFiX8=\n-----END PUBLIC KEY-----\n"
	privateDER  = "MC4CAQAwBQYDK2VuBCIEIAho7p+2ZE0NomIb0UEKEvzQTqi/YORuxfdU44HBqAZH"
	publicDER   = "MCowBQYDK2VuAyEAuRsS+7Pek/FcxsoEjNEBgZrC2bdxZ0rSHM4FNMuFiX8="
	privateText = "CGjun7ZkTQ2iYhvRQQoS/NBOqL9g5G7F91TjgcGoBkc="
	publicText  = "uRsS+7Pek/FcxsoEjNEBgZrC2bdxZ0rSHM4FNMuFiX8="
	// Its base64 begins like DER: 0x30, then the length of the rest, line end included.
	trickyText = "0+jun7ZkTQ2iYhvRQQoS/NBOqL9g5G7F91TjgcGoBkc=\n"

	ed25519PEM   = "-----BEGIN PRIVATE KEY-----\nMC4CAQAwBQYDK2VwBCIEIDRknM5evnSZpAVXpW81oDlyGJEW0sCGMYSzzrIz0BKt\n-----END PRIVATE KEY-----\n"
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

func TestPrivateKeysAreReadInEveryForm(t *testing.T) {
	raw := fromBase64(t, privateText)
	for name, data := range map[string][]byte{
		"raw": raw, "base64": []byte(privateText), "wg genkey": []byte(privateText + "\n"), "Windows": []byte(privateText + "\r\n"),
		"openssl PEM": []byte(privatePEM), "openssl DER": fromBase64(t, privateDER),
	} {
		key, err := ParsePrivateKey(data)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if !bytes.Equal(key[:], raw) {
			t.Errorf("%s: read as another key", name)
		}
		if got := key.Public().String(); got != publicText {
			t.Errorf("%s: its public key is %s, want %s", name, got, publicText)
		}
	}
	tricky, err := ParsePrivateKey([]byte(trickyText))
	if err != nil {
		t.Fatal(err)
	}
	if want := PrivateKey(fromBase64(t, trickyText)).clamped(); tricky != want {
		t.Error("base64 that begins like DER was read as something else")
	}
}

func TestPublicKeysAreReadInEveryForm(t *testing.T) {
	raw := fromBase64(t, publicText)
	for name, data := range map[string][]byte{
		"raw": raw, "wg pubkey": []byte(publicText + "\n"), "openssl PEM": []byte(publicPEM), "openssl DER": fromBase64(t, publicDER),
	} {
		key, err := ParsePublicKey(data)
		if err != nil || !bytes.Equal(key[:], raw) {
			t.Errorf("%s: %s, %v", name, key, err)
		}
	}
}

func TestWhatIsNoKeyIsRefused(t *testing.T) {
	der := fromBase64(t, privateDER)
	for name, data := range map[string][]byte{
		"nothing": nil, "zero": make([]byte, 32), "31 bytes": make([]byte, 31), "33 bytes": make([]byte, 33),
		"base64 of 31": []byte(base64.StdEncoding.EncodeToString(make([]byte, 31))), "base64 of zero": []byte(base64.StdEncoding.EncodeToString(make([]byte, 32))),
		"two lines": []byte(privateText + "\n" + privateText + "\n"), "Ed25519": []byte(ed25519PEM), "encrypted": []byte(encryptedPEM),
		"public PEM": []byte(publicPEM), "cut DER": der[:len(der)-1], "longer DER": append(der, 0),
		"two PEMs": []byte(privatePEM + privatePEM), "broken PEM": []byte(privatePEM[:60]), "hex": []byte(fmt.Sprintf("%x", fromBase64(t, privateText))),
	} {
		if _, err := ParsePrivateKey(data); err == nil {
			t.Errorf("%s was read as a private key", name)
		} else if strings.Contains(err.Error(), privateText[:10]) {
			t.Errorf("%s: the error quotes the key: %v", name, err)
		}
	}
	if _, err := ParsePublicKey([]byte(privatePEM)); err == nil {
		t.Error("a private key was read as a public one")
	}
}

// The vector of RFC 7748, 6.1. Its private key is not clamped.
func TestPublicHalfOfAnUnclampedKey(t *testing.T) {
	key, err := ParsePrivateKey(fromBase64(t, "dwdtCnMYpX08FsFyUbJmRd9ML4frwJkqsXf7pR25LCo="))
	if err != nil {
		t.Fatal(err)
	}
	if got, want := key.Public().String(), "hSDwCYkwp1R0i33ctD73Wg2/Og0mOBr066SpjqqbTmo="; got != want {
		t.Errorf("public key %s, want %s", got, want)
	}
	if key[0] != 0x70 || key[31] != 0x6a {
		t.Errorf("first and last byte are %#x and %#x: not clamped", key[0], key[31])
	}
}

func TestGeneratedKeysDifferAndAreClamped(t *testing.T) {
	a, b := newKey(t), newKey(t)
	if a == b {
		t.Error("two keys are equal")
	}
	if a != a.clamped() {
		t.Error("a generated key is not clamped")
	}
}

func TestPrivateKeysNeverShow(t *testing.T) {
	key, err := ParsePrivateKey([]byte(privateText))
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "%d", "%o", "%c"} {
		fmt.Fprintf(&out, verb+"\n", key)
		fmt.Fprintf(&out, verb+"\n", Config{PrivateKey: key})
		fmt.Fprintf(&out, verb+"\n", &key)
	}
	for _, handler := range []slog.Handler{slog.NewTextHandler(&out, nil), slog.NewJSONHandler(&out, nil)} {
		slog.New(handler).Info("a line", "key", key, "config", Config{PrivateKey: key})
	}
	if err := json.NewEncoder(&out).Encode(map[string]any{"key": key, "config": Config{PrivateKey: key}}); err != nil {
		t.Fatal(err)
	}
	for _, form := range []string{"%s", "%x", "%X", "%d", "%o", "%v"} {
		whole := strings.Trim(fmt.Sprintf(form, key[:]), "[]")
		if strings.Contains(out.String(), whole[len(whole)/2:]) {
			t.Errorf("the key shows as %s", form)
		}
	}
	if strings.Contains(out.String(), privateText[10:20]) {
		t.Error("the key shows as base64")
	}
}

func FuzzParsePrivateKey(f *testing.F) {
	f.Add(fromBase64(f, privateText))
	f.Add(fromBase64(f, privateDER))
	for _, text := range []string{privateText, trickyText, privatePEM, publicPEM, ed25519PEM, encryptedPEM, "0*", "-----BEGIN "} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		key, err := ParsePrivateKey(data)
		if err != nil {
			return
		}
		if key != key.clamped() {
			t.Fatal("not clamped")
		}
		for name, form := range map[string][]byte{"raw": key[:], "base64": []byte(base64.StdEncoding.EncodeToString(key[:]) + "\n")} {
			if again, err := ParsePrivateKey(form); err != nil || again != key {
				t.Fatalf("its %s form is read as another key, %v", name, err)
			}
		}
		if public, err := ParsePublicKey([]byte(key.Public().String())); err != nil || public != key.Public() {
			t.Fatalf("its public key is read as another one, %v", err)
		}
	})
}
