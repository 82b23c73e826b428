// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"fmt"
	"net/http"

	"k8s.io/client-go/rest"
)

// WriteBudget is a rate limit of the bytes written to an API server on behalf of a peer: Rate bytes per second, after a
// first Burst. Writes wait when the token bucket is empty.
type WriteBudget struct {
	Rate, Burst int64
	// Exceeded is called when a write has to wait. May be nil.
	Exceeded func(reason, message string)
}

// smallWrite is the minimum cost of a request, also of a request without a Content-Length: no write is free.
const smallWrite = 256

// LimitWrites returns a configuration whose clients share the write budget. Reads are not limited.
func (w WriteBudget) LimitWrites(cfg *rest.Config) *rest.Config {
	out := rest.CopyConfig(cfg)
	budget := newBucket(w.Rate, w.Burst)
	out.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return &limitedWrites{next: next, budget: budget, of: w}
	})
	return out
}

type limitedWrites struct {
	next   http.RoundTripper
	budget *tokenBucket
	of     WriteBudget
}

// WrappedRoundTripper returns the wrapped transport, which client-go needs, for example, to close idle connections.
func (l *limitedWrites) WrappedRoundTripper() http.RoundTripper { return l.next }

func (l *limitedWrites) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.Method == http.MethodGet || req.Method == http.MethodHead || req.Method == http.MethodOptions {
		return l.next.RoundTrip(req)
	}
	wait := l.budget.reserveTokens(max(req.ContentLength, smallWrite))
	if wait > 0 && l.of.Exceeded != nil {
		l.of.Exceeded(ReasonTooManyWrites, fmt.Sprintf("what it does makes this cluster write more than %d bytes in a second", l.of.Rate))
	}
	if err := pauseFor(req.Context(), wait); err != nil {
		if req.Body != nil {
			req.Body.Close()
		}
		return nil, fmt.Errorf("waiting for the budget of writes: %w", err)
	}
	return l.next.RoundTrip(req)
}
