// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"sync"
	"time"

	ctrl "sigs.k8s.io/controller-runtime"

	"liqo.io/liqo/internal/names"
	"liqo.io/liqo/internal/network/plan"
)

// Prober probes the peers of an agent all the time.
type Prober interface {
	// SendNow sends the next probes now.
	SendNow()
	// Paths returns the probed paths, sorted by peer.
	Paths() []ProbedPath
}

// ProbedPath is the path to a peer, with the size of its full packets.
type ProbedPath struct {
	Peer   string
	MTU    int
	Health PathHealth
}

// Bounds of probes requested by clients: one request at a time, and a pause before the next request. A later answer is lost.
const (
	probePause = time.Second
	probeLimit = 2 * time.Second
	probeCheck = 10 * time.Millisecond
)

// ServeProbes has clients that may get names.ProbePath send probes: only to the peers of the agent, and no more than two of each size at a time.
func ServeProbes(mgr ctrl.Manager, p Prober) error {
	if err := mgr.AddMetricsServerExtraHandler(names.ProbePath, newProbeHandler(p)); err != nil {
		return fmt.Errorf("serving probes: %w", err)
	}
	return nil
}

// newProbeHandler returns a handler that sends probes, and writes a plan.ProbeResult for each peer and size. Nothing of the request is used.
func newProbeHandler(p Prober) http.Handler {
	var sending sync.Mutex
	var last time.Time
	refuse := func(w http.ResponseWriter, why string, after time.Duration) {
		w.Header().Set("Retry-After", strconv.Itoa(int(after.Seconds())))
		http.Error(w, why, http.StatusTooManyRequests)
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !sending.TryLock() {
			refuse(w, "other probes are being sent", probeLimit+probePause)
			return
		}
		defer sending.Unlock()
		if time.Since(last) < probePause {
			refuse(w, "probes were sent a moment ago", probePause)
			return
		}
		start := time.Now()
		p.SendNow()
		check := time.NewTicker(probeCheck)
		defer check.Stop()
		again := time.NewTimer(probeLimit / 2) // one lost packet is no fault
		defer again.Stop()
		results, complete := probeResults(p.Paths(), start)
		for !complete && time.Since(start) < probeLimit {
			select {
			case <-check.C:
			case <-again.C:
				p.SendNow()
			case <-r.Context().Done():
				return
			}
			results, complete = probeResults(p.Paths(), start)
		}
		last = time.Now()
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(results) // the client is gone otherwise
	})
}

// probeResults returns what was answered since start, and whether all probes were.
func probeResults(paths []ProbedPath, start time.Time) (out []plan.ProbeResult, complete bool) {
	out, complete = []plan.ProbeResult{}, true
	add := func(peer string, bytes int, a Answers) {
		r := plan.ProbeResult{Peer: peer, Bytes: bytes, Answered: a.At.After(start)}
		if r.Answered {
			r.Milliseconds = float64(a.Latency.Microseconds()) / 1000
		}
		complete = complete && r.Answered
		out = append(out, r)
	}
	for _, path := range paths {
		add(path.Peer, 0, path.Health.Small)
		if path.Health.Pads {
			add(path.Peer, path.MTU, path.Health.Full)
		}
	}
	return out, complete
}
