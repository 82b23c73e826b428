// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package wg

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"
)

func fromBase64(t *testing.T, text string) []byte {
	t.Helper()
	data, err := base64.StdEncoding.DecodeString(strings.TrimSpace(text))
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// The vector of RFC 7748, 6.1. Its private key is not clamped.
func TestPublicKeyOfUnclamped(t *testing.T) {
	key := PrivateKey(fromBase64(t, "dwdtCnMYpX08FsFyUbJmRd9ML4frwJkqsXf7pR25LCo="))
	const want = "hSDwCYkwp1R0i33ctD73Wg2/Og0mOBr066SpjqqbTmo="
	if got := key.Public().String(); got != want {
		t.Errorf("public key %s, want %s", got, want)
	}
	if got := key.clampScalar().Public().String(); got != want {
		t.Errorf("clamped, public key %s, want %s", got, want)
	}
}

func TestPrivateKeyRedacted(t *testing.T) {
	const privateText = "CGjun7ZkTQ2iYhvRQQoS/NBOqL9g5G7F91TjgcGoBkc="
	key := PrivateKey(fromBase64(t, privateText))
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
