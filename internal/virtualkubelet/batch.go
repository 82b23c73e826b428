// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package virtualkubelet

import (
	"time"

	corev1 "k8s.io/api/core/v1"

	"liqo.io/liqo/internal/kube"
)

// bunchTime is the time between two batches of statuses. A status may be late by it, and pods that trickle in cost much
// less: the controllers write the status of their ReplicaSet and of its Deployment once for each batch, not for each pod.
const bunchTime = 500 * time.Millisecond

// batchUpdate returns nil if a status is due now, else an error with the time to wait for its batch. The first status after a
// silence does not wait, and each later one waits once: a status that missed its turn is written at once.
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
		if m.left = laterOf(m.left, known.leaves); -left >= bunchTime { // a new batch
			m.left = now
		}
		known.leaves = time.Time{}
	})
	if left > 0 {
		return kube.Wait(left, "the status goes with those of other pods")
	}
	return nil
}

// endBatch resets the batching of a pod that has no status to write after all.
func (m *podStates) endBatch(local *corev1.Pod) {
	m.withState(local, func(known *podState) { known.leaves = time.Time{} })
}

func laterOf(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}
