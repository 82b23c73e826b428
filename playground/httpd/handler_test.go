// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
)

func TestPages(t *testing.T) {
	server := httptest.NewServer(Handler("shop", Place{Cluster: "milan", Pod: "shop-1", Host: "shop-1"}))
	defer server.Close()
	for path, want := range map[string]string{
		"/":              "<dt>cluster</dt><dd>milan</dd>",
		"/json":          `"cluster":"milan"`,
		"/healthz":       "ok",
		"/bytes?n=3":     "\x00\x00\x00",
		"/slow?for=20ms": "T",
	} {
		var out strings.Builder
		if err := fetchPage(t.Context(), credentials{}, server.URL+path, &out); err != nil || !strings.Contains(out.String(), want) {
			t.Errorf("%s: %v, no %q in %q", path, err, want, out.String())
		}
	}
}

func TestClientReturnsStatus(t *testing.T) {
	server := httptest.NewServer(Handler("shop", Place{}))
	defer server.Close()
	for path, want := range map[string]string{"/nothing": "404", "/bytes?n=x": "400", "/slow?for=x": "400"} {
		if err := fetchPage(t.Context(), credentials{}, server.URL+path, &strings.Builder{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", path, err, want)
		}
	}
}

func TestEcho(t *testing.T) {
	server := httptest.NewServer(Handler("", Place{}))
	defer server.Close()
	body := strings.Repeat("x", 100_000)
	res, err := server.Client().Post(server.URL+"/echo", "text/plain", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	var got strings.Builder
	if _, err := io.Copy(&got, res.Body); err != nil || got.String() != body {
		t.Errorf("%d of %d bytes came back: %v", got.Len(), len(body), err)
	}
}

func TestClientCredentials(t *testing.T) {
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, r.Header.Get("Authorization")) }))
	defer server.Close()
	creds := credentials{ca: t.TempDir() + "/ca.crt", token: t.TempDir() + "/token"}
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	if err := errors.Join(os.WriteFile(creds.ca, ca, 0o600), os.WriteFile(creds.token, []byte("secret\n"), 0o600)); err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	if err := fetchPage(t.Context(), creds, server.URL, &out); err != nil || out.String() != "Bearer secret" {
		t.Errorf("%q, %v", out.String(), err)
	}
	if err := fetchPage(t.Context(), credentials{token: creds.token}, server.URL, &out); err == nil {
		t.Error("a server with an unknown CA was accepted")
	}
}
