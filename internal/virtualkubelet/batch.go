// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package virtualkubelet

import (
	"time"

	corev1 "k8s.io/api/core/v1"

	"liqo.io/liqo/internal/kube"
)

// bunchTime is the time between two bunches of statuses. Of it a status may be late, and pods that trickle in cost that
// much less: for each bunch, not for each pod, somebody writes the status of the ReplicaSet, and of its Deployment.
const bunchTime = 500 * time.Millisecond

// batchUpdate returns nil for a status that goes now, and an error that says how long to wait for one that goes with others. The
// first after a silence does not wait, and those that follow it wait once: one whose turn comes late goes then.
func (m *podStates) batchUpdate(local *corev1.Pod) error {
	now := m.now()
	var left time.Duration
	m.withState(local, func(known *podState) {
		if known.leaves.IsZero() {
			known.leaves = laterOf(now, m.left.Add(bunchTime))
		}
		if left = known.leaves.Sub(now); left > 0 {
			return
		}
		if m.left = laterOf(m.left, known.leaves); -left >= bunchTime { // it is another bunch
			m.left = now
		}
		known.leaves = time.Time{}
	})
	if left > 0 {
		return kube.Wait(left, "the status goes with those of other pods")
	}
	return nil
}

// endBatch is for a pod that has no status to write, after all.
func (m *podStates) endBatch(local *corev1.Pod) {
	m.withState(local, func(known *podState) { known.leaves = time.Time{} })
}

func laterOf(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}
