// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"time"

	"liqo.io/liqo/internal/agent"
)

// timedHealth is a pulse with a clock of its own, which begins at 0 s. A probe of either size is sent each second.
type timedHealth struct {
	agent.PathHealth
	zero time.Time
}

func newTimedHealth() *timedHealth {
	return &timedHealth{PathHealth: agent.PathHealth{Interval: time.Second, Threshold: 3}, zero: time.Now()}
}

func (h *timedHealth) at(seconds float64) time.Time {
	return h.zero.Add(time.Duration(seconds * float64(time.Second)))
}

func (h *timedHealth) ask(seconds ...float64) {
	for _, s := range seconds {
		h.Ask(h.at(s))
	}
}

// wire is a time as a peer sends it back.
func wire(t time.Time) time.Time { return t.Round(0) }

// padded has small and full questions of one moment answered at another.
func (h *timedHealth) padded(asked, answered float64) {
	h.Pads = h.Small.Hear(wire(h.at(asked)), h.at(answered)) || h.Pads
	h.Full.Hear(wire(h.at(asked)), h.at(answered))
}
