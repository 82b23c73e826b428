// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package virtualkubelet

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/go-logr/logr"

	"liqo.io/liqo/internal/multicluster"
)

// providerHealth checks whether the provider's API server answers. The checks are separate requests: a dead provider is noticed
// even while the rest of Liqo is down.
type providerHealth struct {
	// ping sends one request to the provider.
	ping func(ctx context.Context) error
	// interval between two checks; negative disables them, and then the provider counts as healthy.
	interval, timeout time.Duration
	// failureThreshold is how long failures are tolerated.
	failureThreshold time.Duration
	now              func() time.Time
	// changed is called when the health state changes.
	changed func()
	log     logr.Logger

	mu      sync.Mutex
	began   time.Time
	lastOK  time.Time
	lastErr error
	// refusals counts the consecutive checks that the provider answered with a refusal of our credentials.
	refusals int
	last     reachability
}

// reachability is the state of the provider's API server.
type reachability int

const (
	// undecided: the checks have not run for long enough. A new process starts without the knowledge of the previous one.
	undecided reachability = iota
	answers
	silent
	// refuses: the provider answers, but denies us access.
	refuses
)

// One refusal may hit credentials under rotation: the provider is checked once more, soon.
const (
	enoughRefusals = 2
	refusalPause   = 3 * time.Second
)

// runChecks checks the provider until ctx ends.
func (h *providerHealth) runChecks(ctx context.Context) error {
	if h.interval < 0 {
		h.recordResult(nil)
		<-ctx.Done()
		return nil
	}
	for {
		h.checkOnce(ctx)
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(h.nextInterval()):
		}
	}
}

// nextInterval returns the time to the next check: the interval, or less if the failure threshold ends before, for a timely
// change of the state.
func (h *providerHealth) nextInterval() time.Duration {
	h.mu.Lock()
	defer h.mu.Unlock()
	since := h.lastOK
	if since.IsZero() {
		since = h.began
	}
	if remaining := h.failureThreshold - h.now().Sub(since); h.lastErr != nil && remaining > 0 {
		return min(h.interval, remaining)
	}
	if h.refusals > 0 && h.refusals < enoughRefusals {
		return min(h.interval, refusalPause)
	}
	return h.interval
}

func (h *providerHealth) checkOnce(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, h.timeout)
	defer cancel()
	err := h.ping(ctx)
	if errors.Is(err, context.Canceled) {
		return
	}
	h.recordResult(err)
}

func (h *providerHealth) recordResult(err error) {
	h.mu.Lock()
	switch {
	case err == nil:
		h.lastOK, h.lastErr, h.refusals = h.now(), nil, 0
	case errors.Is(err, multicluster.ErrRefused):
		h.lastErr = nil
		if h.refusals++; h.refusals >= enoughRefusals {
			h.lastOK = h.now()
		}
	default:
		h.lastErr = err
	}
	if h.began.IsZero() {
		h.began = h.now()
	}
	before := h.last
	h.last = h.judgeLocked()
	after := h.last
	h.mu.Unlock()
	if before == after {
		return
	}
	switch after {
	case answers:
		h.log.Info("the provider answers")
	case refuses:
		h.log.Info("the provider refuses our credentials", "reason", fmt.Sprint(err))
	default:
		h.log.Info("the provider does not answer", "reason", fmt.Sprint(err))
	}
	h.changed()
}

// isHealthy reports whether the last check was answered, even with a refusal: the lease is renewed only then.
func (h *providerHealth) isHealthy() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.lastErr == nil && !h.lastOK.IsZero()
}

// classify returns the state by recent answers: one lost answer does not make the node not ready.
func (h *providerHealth) classify() reachability {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.judgeLocked()
}

func (h *providerHealth) judgeLocked() reachability {
	recent := func(t time.Time) bool { return h.now().Sub(t) < h.failureThreshold }
	switch {
	case h.refusals >= enoughRefusals:
		return refuses
	case !h.lastOK.IsZero() && (h.interval < 0 || recent(h.lastOK)):
		return answers
	case h.lastOK.IsZero() && (h.began.IsZero() || recent(h.began)):
		return undecided
	}
	return silent
}
