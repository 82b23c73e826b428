// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"errors"
	"net/http"
	"sync"
)

// Health reports whether the first run succeeded. A later failure does not make an agent unready: the applied state still works,
// and an unready pod gets no packets. The zero value means that no run has finished.
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
