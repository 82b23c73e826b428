// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package webhook

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"math/big"
	"net/http"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/webhook"

	"liqo.io/liqo/internal/testkit"
)

// testCertificate returns a certificate that no client verifies.
func testCertificate(t *testing.T) *tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	return &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

// Whoever keeps a connection, as API servers do, is told on it that the server goes.
func TestGracefulShutdown(t *testing.T) {
	port, certificate := testkit.Port(t), testCertificate(t)
	d := &drained{drainFor: 5 * time.Second, Server: webhook.NewServer(webhook.Options{Host: "127.0.0.1", Port: port, TLSOpts: []func(*tls.Config){func(c *tls.Config) {
		c.GetCertificate = func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return certificate, nil }
	}}})}
	d.Register("/hook", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = io.Copy(w, r.Body) }))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- d.Start(ctx) }()
	testkit.Eventually(t, time.Minute, func() error { return d.StartedChecker()(nil) })

	transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"http/1.1"}}}
	defer transport.CloseIdleConnections()
	ask := func() (last bool) {
		t.Helper()
		response, err := (&http.Client{Transport: transport}).Post(fmt.Sprintf("https://127.0.0.1:%d/hook", port), "text/plain", strings.NewReader("hello"))
		if err != nil {
			t.Fatalf("a request was not answered: %v", err)
		}
		defer response.Body.Close()
		if output, err := io.ReadAll(response.Body); err != nil || string(output) != "hello" {
			t.Fatalf("answered %q, %v", output, err)
		}
		return response.Close
	}
	if ask() {
		t.Error("the connection ended although nothing else does")
	}
	cancel()
	for !ask() {
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
