// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package kube_test

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/manager"

	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/testkit"
)

func TestManagerServesHealthAndProfilesToAllAndMetricsToTheAuthorised(t *testing.T) {
	c := testkit.Cluster(t)
	health, metrics, profiles := freeAddress(t), freeAddress(t), freeAddress(t)
	mgr, err := kube.NewManager(c.Config, kube.ManagerOptions{
		Name: "served", HealthAddress: health, MetricsAddress: metrics, ProfilingAddress: profiles, RepeatNames: true,
		LeaderElection: true, LeaderElectionNamespace: "default",
	})
	if err != nil {
		t.Fatal(err)
	}
	visitor := visit(t, mgr)
	for url, want := range map[string]int{
		"http://" + health + "/healthz":            http.StatusOK,
		"http://" + health + "/readyz":             http.StatusOK,
		"https://" + metrics + "/metrics":          http.StatusUnauthorized,
		"http://" + profiles + "/debug/pprof/heap": http.StatusOK,
	} {
		testkit.Eventually(t, limit, func() error {
			resp, err := visitor.Get(url)
			if err != nil {
				return err
			}
			defer resp.Body.Close()
			if resp.StatusCode != want {
				return fmt.Errorf("%s: got %s, want %d", url, resp.Status, want)
			}
			return nil
		})
	}
}

// visit runs a manager until the test ends, and returns a client of its ports.
func visit(t *testing.T, mgr manager.Manager) *http.Client {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- mgr.Start(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	// The manager's certificate is self-signed, as behind a scraper that pins nothing.
	return &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
}

func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return net.JoinHostPort("127.0.0.1", strconv.Itoa(l.Addr().(*net.TCPAddr).Port))
}
