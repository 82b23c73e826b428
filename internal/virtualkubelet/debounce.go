// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package virtualkubelet

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"liqo.io/liqo/internal/kube"
)

// calmTime is how long a pod may be starting before its status is published.
const calmTime = time.Second

// debounceStart delays a "starting" status of a remote pod: mostly the "running" status follows before a client could read the
// first, and one write is half of two. It returns an error with the time to wait, nil if a status is due now.
func (m *podStates) debounceStart(local, remote *corev1.Pod) error {
	if !isStarting(local, remote) {
		m.withState(local, func(known *podState) { known.starting = time.Time{} })
		return nil
	}
	if !isScheduled(remote) {
		return kube.Wait(0, "nothing is known of the remote pod yet")
	}
	now := m.now()
	var first time.Time
	m.withState(local, func(known *podState) {
		if known.starting.IsZero() {
			known.starting = now
		}
		first = known.starting
	})
	if left := calmTime - now.Sub(first); left > 0 {
		return kube.Wait(left, "the remote pod is starting")
	}
	return nil
}

// isStarting reports whether the remote pod is in the states of any pod before it runs, and the local status contains nothing else.
func isStarting(local, remote *corev1.Pod) bool {
	return local.DeletionTimestamp.IsZero() && remote.DeletionTimestamp.IsZero() &&
		(local.Status.Phase == "" || local.Status.Phase == corev1.PodPending) && remote.Status.Phase == corev1.PodPending &&
		local.Status.Reason == "" && local.Status.Message == "" && remote.Status.Reason == "" &&
		!slices.ContainsFunc(local.Status.Conditions, func(c corev1.PodCondition) bool {
			return c.Type != corev1.PodScheduled || c.Status != corev1.ConditionTrue
		}) &&
		len(local.Status.ContainerStatuses) == 0 && len(podProblems(remote)) == 0 &&
		!slices.ContainsFunc(slices.Concat(remote.Status.InitContainerStatuses, remote.Status.ContainerStatuses), hasStarted)
}

// hasStarted reports whether a container is past waiting for its creation.
func hasStarted(s corev1.ContainerStatus) bool {
	return s.State.Running != nil || s.State.Terminated != nil || s.RestartCount > 0 ||
		s.State.Waiting != nil && !slices.Contains([]string{"", "ContainerCreating", "PodInitializing"}, s.State.Waiting.Reason)
}

func isScheduled(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool { return c.Type == corev1.PodScheduled })
}
