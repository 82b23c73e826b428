// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"errors"
	"net/http"
	"sync"
)

// Health is whether a run has done all that it was to do. A later failure does not make an agent unready: what it did before goes
// on to work, and whoever is not ready gets no packets. The zero value says that nothing ran yet.
type Health struct {
	mu   sync.Mutex
	ran  bool
	done bool
	last error
}

// Set says how a run ended.
func (h *Health) Set(err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.ran, h.done, h.last = true, h.done || err == nil, err
}

// Check is the answer to a readiness probe.
func (h *Health) Check(*http.Request) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case h.done:
		return nil
	case h.ran:
		return h.last
	}
	return errors.New("nothing was applied yet")
}
