// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"sync"

	ctrl "sigs.k8s.io/controller-runtime"

	"liqo.io/liqo/internal/datapath"
	"liqo.io/liqo/internal/names"
)

// Observable is a network namespace whose state can be read.
type Observable interface {
	// Observe returns our state in the kernel.
	Observe() (datapath.State, error)
	// Counted returns the number of dropped packets by reason.
	Counted() (map[string]uint64, error)
}

// ServeState serves the state of a network namespace beside the metrics, to clients that may get names.NetworkStatePath.
func ServeState(mgr ctrl.Manager, k Observable) error {
	if err := mgr.AddMetricsServerExtraHandler(names.NetworkStatePath, newStateHandler(k)); err != nil {
		return fmt.Errorf("serving the state of the network: %w", err)
	}
	return nil
}

// newStateHandler returns a handler that writes the state in the syntax of ip and nft, one object per line, and the dropped packets. The handler
// reads the kernel for one request at a time.
func newStateHandler(k Observable) http.Handler {
	var reading sync.Mutex
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		reading.Lock()
		defer reading.Unlock()
		state, err := k.Observe()
		if err != nil {
			http.Error(w, "reading the kernel: "+err.Error(), http.StatusInternalServerError)
			return
		}
		counted, err := k.Counted()
		if err != nil {
			http.Error(w, "reading the counters: "+err.Error(), http.StatusInternalServerError)
			return
		}
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		fmt.Fprint(w, state)
		for _, reason := range slices.Sorted(maps.Keys(counted)) {
			fmt.Fprintf(w, "dropped %d packets: %s\n", counted[reason], reason)
		}
	})
}
