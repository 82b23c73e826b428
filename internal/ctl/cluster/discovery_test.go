// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"
)

// Without a time of its own a command would wait for an API server that says nothing for as long as that likes.
func TestDiscoveryTimeout(t *testing.T) {
	over := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-over }))
	t.Cleanup(server.Close)
	t.Cleanup(func() { close(over) })
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL+"/apis", nil)
	if err != nil {
		t.Fatal(err)
	}
	response, err := within{t.Context(), http.DefaultTransport, 100 * time.Millisecond}.RoundTrip(request)
	if err == nil {
		response.Body.Close()
	}
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("it ends with %v", err)
	}
}
