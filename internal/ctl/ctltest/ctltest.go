// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

// Package ctltest holds helpers for tests of the commands.
package ctltest

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net/http"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	offv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/ctl/cluster"
	"liqo.io/liqo/internal/ctl/ui"
	"liqo.io/liqo/internal/testkit"
)

// Lend makes an object until the end of the test: later tests find all objects of Liqo in a cluster.
func Lend(t *testing.T, c *testkit.ControlPlane, obj client.Object) {
	t.Helper()
	testkit.Create(t, c.Client, obj)
	t.Cleanup(func() {
		if err := c.Client.Delete(context.Background(), obj); err != nil { // the test's own is over
			t.Error(err)
		}
	})
}

// LendWithStatus makes an object with the status of its controllers.
func LendWithStatus[T client.Object](t *testing.T, c *testkit.ControlPlane, obj T, status func(T)) {
	t.Helper()
	Lend(t, c, obj)
	status(obj)
	if err := c.Client.Status().Update(t.Context(), obj); err != nil {
		t.Fatal(err)
	}
}

// Create creates an object, and deletes the object after the test.
func Create[T client.Object](t *testing.T, c *testkit.ControlPlane, obj T) T {
	t.Helper()
	if err := c.Client.Create(t.Context(), obj); err != nil {
		t.Fatal(err)
	}
	// The test's context is over when cleanups run.
	t.Cleanup(func() { _ = c.Client.Delete(context.Background(), obj) })
	return obj
}

// Answer is the controller: it waits for the generation of the object and writes a phase.
func Answer(ctx context.Context, c client.Client, ns string, generation int64, phase offv1beta1.OffloadingPhaseType) error {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	for {
		nso := &offv1beta1.NamespaceOffloading{}
		err := c.Get(ctx, client.ObjectKey{Namespace: ns, Name: "offloading"}, nso)
		if err == nil && nso.Generation >= generation {
			nso.Status.OffloadingPhase, nso.Status.ObservedGeneration = phase, nso.Generation
			nso.Status.RemoteNamespacesConditions = map[string]offv1beta1.RemoteNamespaceConditions{"cl02": {
				{Type: offv1beta1.NamespaceReady, Status: corev1.ConditionFalse, Reason: "Refused", Message: "reserved name"},
				{Type: offv1beta1.NamespaceNetworkPoliciesEnforced, Status: corev1.ConditionFalse, Reason: "NotReflected", Message: "not enforced: deny-all"},
				{Type: offv1beta1.NamespacePodSecuritySatisfied, Status: corev1.ConditionFalse, Reason: "PodsForbidden", Message: "refused, such as web"},
			}}
			return c.Status().Update(ctx, nso)
		}
		select {
		case <-time.After(20 * time.Millisecond):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// Nothing is a change that changes nothing.
func Nothing(*http.Request) (*http.Response, error) { return nil, nil }

// NewBareCluster returns a cluster of a command without controllers, and the output about the cluster.
func NewBareCluster(t *testing.T, c *testkit.ControlPlane, name, id string) (*cluster.Cluster, *bytes.Buffer) {
	t.Helper()
	output := &bytes.Buffer{}
	return &cluster.Cluster{
		Scope: ui.NewPrinter(strings.NewReader(""), output, output).Scope(name), Name: name, Kube: c.Client, Config: c.Config, ID: id,
		LiqoNamespace: testkit.Namespace(t, c, "liqo", nil), Namespace: testkit.Namespace(t, c, "tenant", nil),
	}, output
}

// ExpiredCertificate returns a certificate of an authority with the name of the clusters' authority. API servers refuse the certificate for its time
// before they verify the signer.
func ExpiredCertificate(t *testing.T) (cert, key []byte) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	authority := &x509.Certificate{Subject: pkix.Name{CommonName: "testkit"}}
	der, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "admin", Organization: []string{"system:masters"}},
		NotBefore: time.Now().Add(-2 * time.Hour), NotAfter: time.Now().Add(-time.Hour),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}, authority, private.Public(), private)
	if err != nil {
		t.Fatal(err)
	}
	pkcs8, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: pkcs8})
}
