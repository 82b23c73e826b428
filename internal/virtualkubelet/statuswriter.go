// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package virtualkubelet

import (
	"context"
	"encoding/json"
	"fmt"
	"hash/maphash"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/names"
)

// Status writes are debounced and deduplicated. A status of a local pod is not written before its due time: the item is queued until then, and the
// status is translated again. Ends of pods are due at once.

const (
	// startDelay delays a "starting" status: mostly the "running" status follows before a client could read the first, and
	// one write is half of two.
	startDelay = time.Second
	// batchInterval is the time between two batches of statuses. A status may be late by this interval, and pods that trickle in cost
	// much less: the controllers write the status of their ReplicaSet and of its Deployment once for each batch, not for each pod.
	batchInterval = 500 * time.Millisecond
)

// writtenStatus is the last written status: the pod version before the write, the digest of the status, and the resulting version.
type writtenStatus struct {
	onto, version string
	digest        uint64
}

// writeStatus writes the status and the labels of want, a copy of local, unless local has them already, or will from a write in
// flight. The result is the time until the write if the write is not due yet, else 0.
func (m *podStates) writeStatus(ctx context.Context, c client.Client, local, want *corev1.Pod, starting bool) (after time.Duration, err error) {
	same, err := sameStatus(local, want)
	if err != nil {
		return 0, err
	}
	if same {
		m.clearDue(local)
		return 0, nil
	}
	now := writtenStatus{onto: local.ResourceVersion}
	if now.digest, err = digestOfStatus(want); err != nil {
		return 0, err
	}
	var last writtenStatus
	m.withState(local, func(known *podState) { last = known.written })
	if last.onto == now.onto { // the cache does not show the last write yet
		if last.digest == now.digest {
			m.clearDue(local)
			return 0, nil
		}
		want.ResourceVersion = last.version
	}
	if !hasEnded(want) {
		if after := m.untilDue(local, starting); after > 0 {
			return after, nil
		}
	}
	if err := putStatus(ctx, c, want); err != nil {
		return 0, err
	}
	now.version = want.ResourceVersion
	m.withState(local, func(known *podState) { known.written = now })
	return 0, nil
}

// untilDue returns the time until a changed status is due, and begins the next batch if the status is due now. The first status after a
// silence does not wait, and each later status waits once: a status that missed its turn is due at once.
func (m *podStates) untilDue(local *corev1.Pod, starting bool) (remaining time.Duration) {
	now := m.now()
	m.withState(local, func(known *podState) {
		switch {
		case !starting:
			known.starting = time.Time{}
		case known.starting.IsZero():
			known.starting = now
		}
		if remaining = known.starting.Add(startDelay).Sub(now); starting && remaining > 0 {
			return
		}
		if known.due.IsZero() {
			known.due = laterOf(now, m.batch.Add(batchInterval))
		}
		if remaining = known.due.Sub(now); remaining > 0 {
			return
		}
		if m.batch = laterOf(m.batch, known.due); -remaining >= batchInterval { // a new batch
			m.batch = now
		}
		known.due, remaining = time.Time{}, 0
	})
	return remaining
}

// clearDue resets the due time of a pod that has no status to write after all.
func (m *podStates) clearDue(local *corev1.Pod) {
	m.withState(local, func(known *podState) { known.due = time.Time{} })
}

func laterOf(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
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

func digestOfStatus(pod *corev1.Pod) (uint64, error) {
	status, err := json.Marshal(pod.Status)
	if err != nil {
		return 0, fmt.Errorf("encoding the status: %w", err)
	}
	return maphash.Bytes(seed, status) + digestOf(pod.Labels), nil
}

// writeStatus writes the status and the labels of a local pod at once if they differ from those of current.
func writeStatus(ctx context.Context, c client.Client, current, want *corev1.Pod) error {
	if same, err := sameStatus(current, want); err != nil || same {
		return err
	}
	return putStatus(ctx, c, want)
}

func sameStatus(current, want *corev1.Pod) (bool, error) {
	same, err := kube.SameStatus(current, want)
	return same && maps.Equal(current.Labels, want.Labels), err
}

func putStatus(ctx context.Context, c client.Client, want *corev1.Pod) error {
	err := c.Status().Update(ctx, want, client.FieldOwner(names.ReflectionFieldManager))
	if err := client.IgnoreNotFound(err); err != nil {
		return fmt.Errorf("writing the status of the local pod: %w", err)
	}
	return nil
}
