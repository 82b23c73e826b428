// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
)

// attempts counts how often a request is sent, and does something then.
type attempts struct {
	http.RoundTripper
	sent atomic.Int32
	then func(int)
}

func (a *attempts) RoundTrip(req *http.Request) (*http.Response, error) {
	response, err := a.RoundTripper.RoundTrip(req)
	if n := int(a.sent.Add(1)); a.then != nil {
		a.then(n)
	}
	return response, err
}

func TestRetry(t *testing.T) {
	refused := &url.Error{Op: "Get", URL: "https://192.0.2.1:6443", Err: syscall.ECONNREFUSED}
	internal, busy, missing := apierrors.NewInternalError(errors.New("no leader")), apierrors.NewTooManyRequestsError("busy"), apierrors.NewNotFound(schema.GroupResource{}, "p")
	untrusted := &url.Error{Op: "Get", Err: &tls.CertificateVerificationError{Err: errors.New("no authority")}}
	cut := errors.New("unexpected error when reading response body. Please retry")
	growing := wait.Backoff{Duration: time.Second, Factor: 2, Steps: 10, Cap: 3 * time.Second}
	for name, tc := range map[string]struct {
		policy   Retry
		answers  []error // an attempt without an answer lasts until its context ends
		want     error
		attempts int
		after    time.Duration
	}{
		"success":           {Retry{Backoff: growing}, []error{nil}, nil, 1, 0},
		"transient":         {Retry{Backoff: growing}, []error{refused, internal, busy, cut, io.ErrUnexpectedEOF, nil}, nil, 6, 12 * time.Second},
		"permanent":         {Retry{Backoff: growing}, []error{busy, missing}, missing, 2, time.Second},
		"untrusted":         {Retry{Backoff: growing}, []error{untrusted}, untrusted, 1, 0},
		"other policy":      {Retry{Backoff: growing, Transient: apierrors.IsNotFound}, []error{missing, busy}, busy, 2, time.Second},
		"attempts":          {Retry{Backoff: growing, Attempts: 3}, []error{busy, busy, busy}, busy, 3, 3 * time.Second},
		"steady":            {Retry{Backoff: wait.Backoff{Duration: time.Second}}, []error{busy, busy, busy, busy, nil}, nil, 5, 4 * time.Second},
		"timeout":           {Retry{Backoff: growing, Timeout: 5 * time.Second}, []error{errHangs, nil}, nil, 2, 6 * time.Second},
		"end in an attempt": {Retry{Backoff: growing}, []error{busy, errHangs}, context.DeadlineExceeded, 2, time.Minute},
		"end in a delay":    {Retry{Backoff: wait.Backoff{Duration: time.Hour}}, []error{busy}, busy, 1, time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				start, attempts, failed := time.Now(), 0, 0
				tc.policy.Failed = func(error) { failed++ }
				err := tc.policy.Do(ctx, func(ctx context.Context) error {
					attempts++
					if err := tc.answers[attempts-1]; err != errHangs {
						return err
					}
					<-ctx.Done()
					return ctx.Err()
				})
				if !errors.Is(err, tc.want) || attempts != tc.attempts || time.Since(start) != tc.after {
					t.Errorf("after %s and %d attempts: %v", time.Since(start), attempts, err)
				}
				if failed != tc.attempts-1 && name != "end in a delay" {
					t.Errorf("%d failures were reported", failed)
				}
			})
		})
	}
}

// errHangs stands for no answer.
var errHangs = errors.New("no answer")

// A watch outlasts an API server that is away, and nothing else does.
func TestRetryingTransport(t *testing.T) {
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
		response, err := client.Do(req)
		if err == nil {
			err = response.Body.Close()
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
