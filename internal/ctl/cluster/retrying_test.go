// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"io"
	"net/http"
	"net/url"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/internal/ctl/ui"
	"liqo.io/liqo/internal/testkit"
)

// scripted is a cluster whose API server answers so, one call after another.
type scripted struct {
	client.WithWatch
	answers []func() error
}

func (s *scripted) Get(context.Context, client.ObjectKey, client.Object, ...client.GetOption) error {
	answer := s.answers[0]
	s.answers = s.answers[1:]
	return answer()
}

func TestRetryAfterFirstAnswer(t *testing.T) {
	fine := func() error { return nil }
	slow := func() error { time.Sleep(QuietPeriod + time.Second); return nil }
	refused := func() error {
		return &url.Error{Op: "Get", URL: "https://192.0.2.1:6443/api", Err: syscall.ECONNREFUSED}
	}
	busy := func() error { return apierrors.NewServiceUnavailable("no etcd") }
	missing := func() error { return apierrors.NewNotFound(schema.GroupResource{Resource: "pods"}, "p") }
	const waits = " WARN   (remote) Waiting for the API server: "
	const connection = waits + "the connection to the server https://192.0.2.1:6443 was refused - did you specify the right host or port?\n"
	for name, tc := range map[string]struct {
		answers []func() error
		calls   int
		said    string
		fails   bool
	}{
		"it answers":                  {[]func() error{fine, missing, fine}, 3, "", false},
		"it is away for a while":      {[]func() error{fine, refused, refused, refused, fine}, 2, connection, false},
		"it is away and has to start": {[]func() error{fine, refused, busy, refused, busy, fine}, 2, connection + waits + "no etcd\n", false},
		"it is away again":            {[]func() error{fine, refused, fine, refused, fine}, 3, connection, false},
		"it is away after an error":   {[]func() error{missing, refused, fine}, 2, connection, false},
		"it says nothing":             {[]func() error{fine, slow}, 2, waits + "it does not answer\n", false},
		"it never answered":           {[]func() error{refused, fine}, 1, "", true},
		"it never answered well":      {[]func() error{busy, fine}, 1, "", true},
		"it was slow to begin with":   {[]func() error{refused, fine, busy, fine}, 3, waits + "no etcd\n", false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var output strings.Builder
				p := NewRetryingClient(&scripted{answers: tc.answers}, ui.NewPrinter(strings.NewReader(""), io.Discard, &output).Scope("remote"))
				var err error
				for range tc.calls {
					err = p.Get(t.Context(), client.ObjectKey{}, &corev1.Pod{})
				}
				if output.String() != tc.said || (err != nil) != tc.fails {
					t.Errorf("it said\n%s\nnot\n%s\nand ended with %v", output.String(), tc.said, err)
				}
			})
		})
	}
}

func TestTenantNamespaceLostAnswer(t *testing.T) {
	c := testkit.Cluster(t)
	s, _ := newBareCluster(t, c, "remote", "milan")
	s.Namespace, s.Missing = "liqo-tenant-unheard", true
	ns := s.TenantNamespace(&Session{}, "unheard")
	t.Cleanup(func() { _ = c.Client.Delete(context.WithoutCancel(t.Context()), ns) })
	lost := false
	s.Kube = NewRetryingClient(testkit.Troubled(t, c, func(r *http.Request) (*http.Response, error) {
		if r.Method != http.MethodPost || lost {
			return nil, nil
		}
		lost = true
		testkit.Create(t, c.Client, ns.DeepCopy())
		return nil, syscall.ECONNRESET
	}), s.Scope)
	if err := s.Kube.Get(t.Context(), client.ObjectKey{Name: "default"}, &corev1.Namespace{}); err != nil {
		t.Fatal(err)
	}
	if err := makeNamespace(t.Context(), s.Kube, ns); err != nil || !lost {
		t.Errorf("it ended with %v; lost %v", err, lost)
	}
	// That of another cluster is not taken for it.
	other := s.TenantNamespace(&Session{}, "another")
	if err := makeNamespace(t.Context(), s.Kube, other); err == nil || !strings.Contains(err.Error(), "is not the tenant namespace of another") {
		t.Errorf("it ended with %v", err)
	}
}
