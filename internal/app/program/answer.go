// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package program

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"net/http"
	"time"

	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"

	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/names"
)

// Timeout of an attempt to reach an API server, and delay until the next attempt.
const (
	attempt = 5 * time.Second
	pause   = time.Second
)

// awaitAnswer returns once an API server responds, with any result, or the context ends. It polls, because no watch
// is possible yet.
func awaitAnswer(ctx context.Context, cfg *rest.Config, health string) error {
	cfg = rest.CopyConfig(cfg)
	cfg.Timeout = attempt
	server, err := discovery.NewDiscoveryClientForConfig(cfg)
	if err != nil {
		return fmt.Errorf("making a client of this cluster's API server: %w", err)
	}
	waits := false
	for {
		err := server.RESTClient().Get().AbsPath("/version").Do(ctx).Error()
		if !kube.IsTransient(err) {
			return nil // other errors are reported by the first failing caller
		}
		if !waits {
			waits = true
			ctrl.Log.Error(err, "waiting for the API server")
			end, err := serveHealth(health)
			if err != nil {
				return err
			}
			defer end()
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("waiting for the API server: %w", err)
		case <-time.After(pause):
		}
	}
}

// serveHealth serves probes of the kubelet while the process is alive and not ready.
func serveHealth(address string) (end func(), err error) {
	if address == "0" {
		return func() {}, nil
	}
	listener, err := net.Listen("tcp", cmp.Or(address, fmt.Sprintf(":%d", names.HealthPort)))
	if err != nil {
		return nil, fmt.Errorf("serving /healthz: %w", err)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(http.ResponseWriter, *http.Request) {})
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "the API server does not answer", http.StatusServiceUnavailable)
	})
	server := &http.Server{Handler: mux, ReadHeaderTimeout: time.Second}
	go func() { _ = server.Serve(listener) }() // until close
	return func() { _ = server.Close() }, nil
}
