// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package translate

import (
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"liqo.io/liqo/internal/policy"
)

// Restarts counts, for one local pod, the restarts in removed remote pods: to the user, a pod recreated by the provider
// is a restarted pod. The zero value is valid after a restart of this process.
type Restarts struct {
	remote types.UID
	base   map[string]int32
}

// Count returns the updated counts for the present pods. It never counts backwards.
func (r Restarts) Count(local, remote *corev1.Pod) Restarts {
	if r.remote == remote.UID {
		return r
	}
	out := Restarts{remote: remote.UID, base: maps.Clone(r.base)}
	if out.base == nil {
		out.base = map[string]int32{}
	}
	for _, old := range slices.Concat(local.Status.InitContainerStatuses, local.Status.ContainerStatuses) {
		if r.remote == "" {
			// Published restarts that are not of this remote pod were of earlier ones.
			out.base[old.Name] = max(0, old.RestartCount-restartCount(remote, old.Name))
		} else {
			out.base[old.Name] = old.RestartCount + 1
		}
	}
	return out
}

// Total returns the count to publish for a container of the present remote pod.
func (r Restarts) Total(container string, remote int32) int32 {
	return min(r.base[container], maxRestartCount/2) + min(cleanRestarts(remote), maxRestartCount/2)
}

func restartCount(pod *corev1.Pod, container string) int32 {
	for _, s := range slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses) {
		if s.Name == container {
			return cleanRestarts(s.RestartCount)
		}
	}
	return 0
}

// Replaceable reports whether the remote pod was deleted in the provider before it had ended. The pod will be recreated,
// and the reports of its stopping containers are no end.
func Replaceable(remote *corev1.Pod) bool {
	if remote.DeletionTimestamp.IsZero() {
		return false
	}
	requestedAt := remote.DeletionTimestamp.Time
	if grace := remote.DeletionGracePeriodSeconds; grace != nil {
		requestedAt = requestedAt.Add(-time.Duration(*grace) * time.Second)
	}
	// These times have no fractions: a container that ended in the second of the deletion most likely ended by the deletion.
	ended := func(s corev1.ContainerStatus) bool {
		return s.State.Terminated != nil && s.State.Terminated.FinishedAt.Time.Before(requestedAt)
	}
	statuses := remote.Status.ContainerStatuses
	return !policy.Ended(remote.Status.Phase) || len(statuses) == 0 || !allOf(statuses, ended)
}

func allOf[T any](list []T, is func(T) bool) bool {
	return !slices.ContainsFunc(list, func(v T) bool { return !is(v) })
}
