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

// The waits between two attempts to connect to an API server that is away.
const (
	patienceMin = 100 * time.Millisecond
	patienceMax = time.Second
)

// wrapRetrying has watches wait for an API server that cannot be connected to, and log that it is away. Reflectors that are told of each attempt
// wait longer and longer for the next one, up to a minute, and remember that for two minutes: long after the API server is back they would
// know nothing. What they list first may come by a watch, too.
func wrapRetrying(cfg *rest.Config) {
	away := &atomic.Bool{}
	cfg.Wrap(func(next http.RoundTripper) http.RoundTripper { return retryingTransport{next, away} })
}

type retryingTransport struct {
	http.RoundTripper
	away *atomic.Bool
}

// RoundTrip sends a watch again until there is a connection to send it by, or nobody waits for it any more.
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
