// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"syscall"
	"testing"

	"k8s.io/client-go/rest"
)

// attempts counts how often a request is sent, and does something then.
type attempts struct {
	http.RoundTripper
	sent atomic.Int32
	then func(int)
}

func (a *attempts) RoundTrip(req *http.Request) (*http.Response, error) {
	answer, err := a.RoundTripper.RoundTrip(req)
	if n := int(a.sent.Add(1)); a.then != nil {
		a.then(n)
	}
	return answer, err
}

// A watch outlasts an API server that is away, and nothing else does.
func TestWatchesWaitForTheAPIServer(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := listener.Addr().String()
	if err := listener.Close(); err != nil {
		t.Fatal(err)
	}
	get := func(ctx context.Context, query string, then func(int)) (int, error) {
		a := &attempts{RoundTripper: &http.Transport{DisableKeepAlives: true}, then: then}
		cfg := &rest.Config{Host: address, Transport: a}
		wrapRetrying(cfg)
		client, err := rest.HTTPClientFor(cfg)
		if err != nil {
			return 0, err
		}
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+"/api/v1/pods"+query, http.NoBody)
		if err != nil {
			return 0, err
		}
		answer, err := client.Do(req)
		if err == nil {
			err = answer.Body.Close()
		}
		return int(a.sent.Load()), err
	}

	if n, err := get(t.Context(), "", nil); !errors.Is(err, syscall.ECONNREFUSED) || n != 1 {
		t.Errorf("a list is sent %d times: %v", n, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	if n, err := get(ctx, "?watch=true", func(n int) {
		if n == 2 {
			cancel()
		}
	}); !errors.Is(err, syscall.ECONNREFUSED) && !errors.Is(err, context.Canceled) || n != 2 {
		t.Errorf("a watch that nobody waits for is sent %d times: %v", n, err)
	}
	ctx, cancel = context.WithCancel(t.Context())
	defer cancel()
	n, err := get(ctx, "?watch=true", func(n int) {
		if n != 3 {
			return
		}
		again, err := net.Listen("tcp", address)
		if err != nil { // another one has the port by now
			cancel()
			return
		}
		server := &httptest.Server{Listener: again, Config: &http.Server{Handler: http.NotFoundHandler()}}
		server.Start()
		t.Cleanup(server.Close)
	})
	if err != nil || n != 4 {
		t.Errorf("a watch is sent %d times: %v", n, err)
	}
}
