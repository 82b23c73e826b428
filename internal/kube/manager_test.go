// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package kube_test

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/testkit"
)

func TestManagerEndpoints(t *testing.T) {
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

func TestManagerPlainMetrics(t *testing.T) {
	c := testkit.Cluster(t)
	metrics := freeAddress(t)
	mgr, err := kube.NewManager(c.Config, kube.ManagerOptions{Name: "plain", HealthAddress: "0", MetricsAddress: metrics, PlainMetrics: true, RepeatNames: true})
	if err != nil {
		t.Fatal(err)
	}
	visitor := visit(t, mgr)
	testkit.Eventually(t, limit, func() error {
		resp, err := visitor.Get("http://" + metrics + "/metrics")
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		if resp.StatusCode != http.StatusOK {
			return fmt.Errorf("got %s", resp.Status)
		}
		return nil
	})
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
	return "127.0.0.1:" + strconv.Itoa(testkit.Port(t))
}

// A process that is told to stop while it still waits for its caches, because the API server is away or refuses it, stops.
func TestManagerStopDuringSync(t *testing.T) {
	c := testkit.Cluster(t)
	mgr, err := kube.NewManager(c.User(t, "without-rights"), kube.ManagerOptions{HealthAddress: "0", MetricsAddress: "0"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := mgr.GetCache().GetInformer(t.Context(), &corev1.ConfigMap{}); err != nil {
		t.Fatal(err)
	}
	other, err := kube.AddCache(mgr, map[client.Object]cache.ByObject{&corev1.Secret{}: {}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := other.GetInformer(t.Context(), &corev1.Secret{}); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	done := make(chan error, 1)
	go func() { done <- mgr.Start(ctx) }()
	select {
	case err := <-done:
		if err != nil && !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	case <-time.After(time.Minute):
		t.Error("it still waits for its caches")
	}
	if err := mgr.GetCache().Get(ctx, client.ObjectKey{Namespace: "default", Name: "any"}, &corev1.ConfigMap{}); err == nil || apierrors.IsNotFound(err) {
		t.Errorf("a cache that never synced answers %v", err)
	}
}
