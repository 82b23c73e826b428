// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"errors"
	"net/http"
	"sync"
)

// Health is whether the last run did all that it was to do. The zero value says that nothing ran yet.
type Health struct {
	mu   sync.Mutex
	ran  bool
	last error
}

// Set says how a run ended.
func (h *Health) Set(err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.ran, h.last = true, err
}

// Check is the answer to a readiness probe.
func (h *Health) Check(*http.Request) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.ran {
		return errors.New("nothing was applied yet")
	}
	return h.last
}
