// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package ctl

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"k8s.io/client-go/rest"
)

// silence is an API server that takes requests and answers none.
func silence(t *testing.T) *rest.Config {
	over := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-r.Context().Done():
		case <-over:
		}
	}))
	t.Cleanup(server.Close)
	t.Cleanup(func() { close(over) })
	return &rest.Config{Host: server.URL}
}

// The first request of a command is for the kinds that the cluster has.
func TestSilentAPIServerTimeout(t *testing.T) {
	here, there := silence(t), kubeconfigFile(t, silence(t))
	for name, args := range map[string][]string{
		"test network":           {"test", "network", "-p", there},
		"bench offload":          {"bench", "offload", "--remote-kubeconfig", there},
		"network connect":        {"network", "connect", "--remote-kubeconfig", there},
		"network disconnect":     {"network", "disconnect", "--remote-kubeconfig", there, "--skip-confirm"},
		"offload":                {"offload", "namespace", "web"},
		"unoffload":              {"unoffload", "namespace", "web", "--skip-confirm"},
		"uninstall":              {"uninstall", "--skip-confirm"},
		"generate configuration": {"generate", "configuration"},
	} {
		t.Run(name, func(t *testing.T) {
			result := endsSoon(t, func() result { return liqoctl(t, here, append(args, "--timeout", "300ms")...) })
			result.refuses(t, "does not answer: timed out")
		})
	}
	t.Run("interrupted", func(t *testing.T) {
		ctx, interrupt := context.WithTimeout(t.Context(), 300*time.Millisecond)
		defer interrupt()
		endsSoon(t, func() result { return liqoctlUntil(ctx, t, here, "info") }).refuses(t)
	})
}

func endsSoon(t *testing.T, do func() result) result {
	t.Helper()
	done := make(chan result, 1)
	go func() { done <- do() }()
	select {
	case r := <-done:
		return r
	case <-time.After(2 * time.Minute):
		t.Fatal("it goes on and on")
		return result{}
	}
}
