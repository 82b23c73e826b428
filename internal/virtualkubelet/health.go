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

// providerHealth knows whether the provider's API server answers. It asks by itself, so that a dead provider is noticed even
// while the rest of Liqo is down.
type providerHealth struct {
	// ping asks the provider once.
	ping func(ctx context.Context) error
	// interval between two questions; negative is never, and then the provider is believed to be well.
	interval, timeout time.Duration
	// patience is how long failures are blips.
	patience time.Duration
	now      func() time.Time
	// changed is called when the verdict changes.
	changed func()
	log     logr.Logger

	mu      sync.Mutex
	began   time.Time
	lastOK  time.Time
	lastErr error
	// refusals are the questions in a row to which the provider said that it does not want us.
	refusals int
	last     healthState
}

// healthState on the provider.
type healthState int

const (
	// undecided: nobody has asked for long enough. A new process knows no better than the one before it.
	undecided healthState = iota
	answers
	silent
	// refuses: it lives, and does not let us work.
	refuses
)

// One refusal may be of credentials that are just being exchanged, so the provider is asked once more, soon.
const (
	enoughRefusals = 2
	refusalPause   = 3 * time.Second
)

// runChecks asks until ctx ends.
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

// nextInterval is the time to the next question: the interval, or less when the patience ends before, so that the verdict is
// not late.
func (h *providerHealth) nextInterval() time.Duration {
	h.mu.Lock()
	defer h.mu.Unlock()
	since := h.lastOK
	if since.IsZero() {
		since = h.began
	}
	if left := h.patience - h.now().Sub(since); h.lastErr != nil && left > 0 {
		return min(h.interval, left)
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

// isHealthy tells whether the last question was answered, be it with a refusal: the lease is renewed only then.
func (h *providerHealth) isHealthy() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.lastErr == nil && !h.lastOK.IsZero()
}

// classify tells whether the provider answered lately: one lost answer does not make the node not ready.
func (h *providerHealth) classify() healthState {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.judgeLocked()
}

func (h *providerHealth) judgeLocked() healthState {
	recent := func(t time.Time) bool { return h.now().Sub(t) < h.patience }
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
