// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"io"
	"net/http/httptest"
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
		if err := get(t.Context(), server.URL+path, &out); err != nil || !strings.Contains(out.String(), want) {
			t.Errorf("%s: %v, no %q in %q", path, err, want, out.String())
		}
	}
}

func TestTheClientFailsLikeThePage(t *testing.T) {
	server := httptest.NewServer(Handler("shop", Place{}))
	defer server.Close()
	for path, want := range map[string]string{"/nothing": "404", "/bytes?n=x": "400", "/slow?for=x": "400"} {
		if err := get(t.Context(), server.URL+path, &strings.Builder{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", path, err, want)
		}
	}
}

func TestAnEchoHasEveryByte(t *testing.T) {
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
