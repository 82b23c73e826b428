// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"context"
	"fmt"

	"github.com/fsnotify/fsnotify"
)

// watchFiles returns a channel that reports changes in a directory, for example of a mounted Secret.
func watchFiles(ctx context.Context, dir string) (<-chan struct{}, error) {
	w, err := fsnotify.NewWatcher()
	if err != nil {
		return nil, fmt.Errorf("watching %s: %w", dir, err)
	}
	if err := w.Add(dir); err != nil {
		_ = w.Close()
		return nil, fmt.Errorf("watching %s: %w", dir, err)
	}
	out := make(chan struct{})
	go func() {
		defer close(out)
		defer w.Close()
		for {
			select {
			case <-w.Events:
			case <-w.Errors: // some events were lost
			case <-ctx.Done():
				return
			}
			select {
			case out <- struct{}{}:
			case <-ctx.Done():
				return
			}
		}
	}()
	return out, nil
}
