// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"errors"
	"math/rand/v2"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
)

// patienceMin and patienceMax bound the delay between two attempts to connect to an unreachable API server.
const (
	patienceMin = 100 * time.Millisecond
	patienceMax = time.Second
)

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
func (p retryingTransport) RoundTrip(req *http.Request) (*http.Response, error) {
	wait := patienceMin
	for {
		answer, err := p.RoundTripper.RoundTrip(req)
		var network *net.OpError
		if err == nil || req.URL.Query().Get("watch") == "" || !errors.As(err, &network) || network.Op != "dial" {
			if err == nil && p.away.CompareAndSwap(true, false) {
				ctrl.Log.Info("the API server is back")
			}
			return answer, err
		}
		if p.away.CompareAndSwap(false, true) {
			ctrl.Log.Info("watches wait for the API server", "reason", err.Error())
		}
		again := time.NewTimer(wait + rand.N(wait/2))
		select {
		case <-again.C:
		case <-req.Context().Done():
			again.Stop()
			return nil, err
		}
		wait = min(2*wait, patienceMax)
	}
}
