// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package multicluster_test

import (
	"encoding/pem"
	"errors"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"liqo.io/liqo/internal/multicluster"
	"liqo.io/liqo/internal/pki"
)

// listener counts the requests that reach it.
func listener(t *testing.T, start func(http.Handler) *httptest.Server) (*httptest.Server, *atomic.Int32) {
	t.Helper()
	reached := &atomic.Int32{}
	s := start(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { reached.Add(1) }))
	t.Cleanup(s.Close)
	return s, reached
}

func TestConnRedirect(t *testing.T) {
	for name, start := range map[string]func(http.Handler) *httptest.Server{
		"without TLS": httptest.NewServer, "with TLS": httptest.NewTLSServer,
	} {
		t.Run(name, func(t *testing.T) {
			elsewhere, reached := listener(t, start)
			server := httptest.NewTLSServer(http.RedirectHandler(elsewhere.URL+"/stolen", http.StatusTemporaryRedirect))
			t.Cleanup(server.Close)
			kubeconfig, err := pki.Kubeconfig{
				Server: server.URL, Token: "secret", Cluster: "c", User: "u",
				CA: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}),
			}.Encode()
			if err != nil {
				t.Fatal(err)
			}
			conn, err := multicluster.NewConn(kubeconfig, multicluster.AllowLoopback(true))
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(conn.Close)
			c, err := kubernetes.NewForConfig(conn.Config())
			if err != nil {
				t.Fatal(err)
			}
			if _, err := c.CoreV1().Secrets("ns").List(t.Context(), metav1.ListOptions{}); !errors.Is(err, multicluster.ErrRedirected) {
				t.Errorf("a call ended with %v, want %v", err, multicluster.ErrRedirected)
			}
			if err := conn.Healthy(t.Context()); !errors.Is(err, multicluster.ErrRedirected) {
				t.Errorf("the look at the health ended with %v, want %v", err, multicluster.ErrRedirected)
			}
			if n := reached.Load(); n != 0 {
				t.Errorf("%d requests reached the other server", n)
			}
		})
	}
}
