// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package vnode

import (
	"time"

	corev1 "k8s.io/api/core/v1"

	"liqo.io/liqo/internal/kube"
)

// bunchTime is the time between two bunches of statuses. Of it a status may be late, and pods that trickle in cost that
// much less: for each bunch, not for each pod, somebody writes the status of the ReplicaSet, and of its Deployment.
const bunchTime = 500 * time.Millisecond

// bunch returns nil for a status that goes now, and an error that says how long to wait for one that goes with others. The
// first after a silence does not wait, and those that follow it wait once.
func (m *memory) bunch(local *corev1.Pod) error {
	now := m.now()
	var left time.Duration
	m.of(local, func(known *podMemory) {
		if !known.leaves.IsZero() && now.Sub(known.leaves) >= bunchTime {
			known.leaves = time.Time{} // of a status that there was nothing to write of in the end
		}
		switch {
		case known.leaves.IsZero() && now.Before(m.left.Add(bunchTime)):
			known.leaves = m.left.Add(bunchTime)
		case known.leaves.IsZero():
			m.left, known.leaves = now, now
		}
		if left = known.leaves.Sub(now); left <= 0 {
			m.left = later(m.left, known.leaves)
			known.leaves = time.Time{}
		}
	})
	if left > 0 {
		return kube.Wait(left, "the status goes with those of other pods")
	}
	return nil
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}
