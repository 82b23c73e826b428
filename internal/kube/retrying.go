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
	"strings"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
)

// Retry repeats an attempt after transient errors, until the context of the call ends.
type Retry struct {
	// Transient reports whether another attempt may succeed; nil is IsTransient.
	Transient func(error) bool
	// Backoff gives the delays between attempts. Its Steps limit the growth of the delays, not the attempts.
	Backoff wait.Backoff
	// Attempts is the maximum number of attempts; 0 is unlimited.
	Attempts int
	// Timeout limits an attempt; 0 is unlimited.
	Timeout time.Duration
	// Failed is called with the error before each delay. May be nil.
	Failed func(error)
}

// Do returns the error of the last attempt.
func (r Retry) Do(ctx context.Context, attempt func(context.Context) error) error {
	transient := r.Transient
	if transient == nil {
		transient = IsTransient
	}
	for n := 1; ; n++ {
		err := r.attemptOnce(ctx, attempt)
		if err == nil || n == r.Attempts || ctx.Err() != nil && errors.Is(err, ctx.Err()) || !transient(err) {
			return err
		}
		if r.Failed != nil {
			r.Failed(err)
		}
		if pauseFor(ctx, r.Backoff.Step()) != nil {
			return err
		}
	}
}

func (r Retry) attemptOnce(ctx context.Context, attempt func(context.Context) error) error {
	if r.Timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, r.Timeout)
		defer cancel()
	}
	return attempt(ctx)
}

// IsTransient reports whether a retry may succeed: the API server has an internal problem or was not reached. A server
// with an untrusted certificate is a permanent error, although Go reports it as a network error, too.
func IsTransient(err error) bool {
	if _, untrusted := errors.AsType[*tls.CertificateVerificationError](err); untrusted {
		return false
	}
	if status, answered := errors.AsType[*apierrors.StatusError](err); answered {
		return status.ErrStatus.Code >= http.StatusInternalServerError || status.ErrStatus.Code == http.StatusTooManyRequests
	}
	_, unreached := errors.AsType[net.Error](err)
	return unreached || errors.Is(err, io.ErrUnexpectedEOF) || err != nil && strings.Contains(err.Error(), brokenOff)
}

// brokenOff is the text by which client-go reports a response cut off by the end of the connection or of the stream. The
// error has no type.
const brokenOff = "when reading response body"

// watchBackoff are the delays of a watch while the API server is unreachable.
var watchBackoff = wait.Backoff{Duration: 100 * time.Millisecond, Factor: 2, Jitter: 0.5, Steps: 10, Cap: time.Second}

// wrapRetrying makes watches wait for an unreachable API server, and logs the outage. A reflector that sees every
// failed attempt backs off up to a minute, and resets the backoff only after two minutes: caches would stay stale long
// after the API server is back. The initial list may be a watch too (WatchList).
func wrapRetrying(cfg *rest.Config) {
	away := &atomic.Bool{}
	cfg.Wrap(func(next http.RoundTripper) http.RoundTripper { return retryingTransport{next, away} })
}

type retryingTransport struct {
	http.RoundTripper
	away *atomic.Bool
}

// RoundTrip retries a watch until the connection succeeds or the context of the request ends.
func (t retryingTransport) RoundTrip(req *http.Request) (response *http.Response, err error) {
	policy := Retry{Transient: func(err error) bool { return isWatch(req) && isUnreachable(err) }, Backoff: watchBackoff, Failed: func(err error) {
		if t.away.CompareAndSwap(false, true) {
			ctrl.Log.Info("watches wait for the API server", "reason", err.Error())
		}
	}}
	err = policy.Do(req.Context(), func(context.Context) error {
		response, err = t.RoundTripper.RoundTrip(req)
		return err
	})
	if err == nil && t.away.CompareAndSwap(true, false) {
		ctrl.Log.Info("the API server is back")
	}
	return response, err
}

func isWatch(req *http.Request) bool { return req.URL.Query().Get("watch") != "" }

// isUnreachable reports whether no connection was made.
func isUnreachable(err error) bool {
	network, ok := errors.AsType[*net.OpError](err)
	return ok && network.Op == "dial"
}
