// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"time"

	"liqo.io/liqo/internal/kube"
)

// writeLimit is how long the writes of one call of Write may take together, and writePause the time until the next attempt if they took longer.
const (
	writeLimit = 2 * time.Second
	writePause = 5 * time.Second
)

// Writer bounds the delay of a loop by writes to the API server: an API server without power answers neither yes nor no.
type Writer struct {
	late time.Time // a write took too long, last
}

// Write calls write with a context that ends in time, or returns a Wait while the API server may still not answer. The client's own rate limit
// counts as no answer, too.
func (w *Writer) Write(ctx context.Context, write func(context.Context) error) error {
	if wait := writePause - time.Since(w.late); wait > 0 {
		return kube.Wait(wait, "the last write to the API server took too long")
	}
	limited, cancel := context.WithTimeout(ctx, writeLimit)
	defer cancel()
	err := write(limited)
	if err != nil && limited.Err() != nil {
		w.late = time.Now()
	}
	return err
}
