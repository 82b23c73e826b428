// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package translate

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"liqo.io/liqo/internal/policy"
)

// The reasons of local pods that do not run remotely; kubectl prints them in the STATUS column.
const (
	// ReasonBackOff: the pod never started and waits for its namespace to be offloaded.
	ReasonBackOff = "OffloadingBackOff"
	// ReasonAborted: the pod ran, and its namespace is not offloaded any more.
	ReasonAborted = "OffloadingAborted"
	// ReasonRemoteTerminated: the remote pod was removed after it had ended.
	ReasonRemoteTerminated = "RemotePodTerminated"
	// ReasonNotStarted: the pod was deleted before it ran.
	ReasonNotStarted = "RemotePodNotStarted"
	// ReasonRemoteMissing: the remote pod was removed and is not recreated yet.
	ReasonRemoteMissing = "RemotePodMissing"
)

// NotReflected returns the status of a pod whose namespace is not offloaded to this node's provider.
func NotReflected(local *corev1.Pod) corev1.PodStatus {
	switch {
	case policy.Ended(local.Status.Phase):
		return *local.Status.DeepCopy()
	case NeverStarted(local):
		return markFailed(local, corev1.PodPending, ReasonBackOff, "")
	default:
		return markFailed(local, corev1.PodFailed, ReasonAborted, "")
	}
}

// NeverStarted reports whether no container of the pod was ever observed.
func NeverStarted(local *corev1.Pod) bool {
	return (local.Status.Phase == corev1.PodPending || local.Status.Phase == "") && len(local.Status.ContainerStatuses) == 0
}

// Refused returns the status of a pod that the provider does not accept.
func Refused(local *corev1.Pod, message string) corev1.PodStatus {
	if !NeverStarted(local) {
		return *local.Status.DeepCopy()
	}
	return markFailed(local, corev1.PodPending, ReasonBackOff, message)
}

// Ended returns the status of a pod whose remote pod vanished after the provider had reported its end.
func Ended(local *corev1.Pod, phase corev1.PodPhase) corev1.PodStatus {
	if policy.Ended(local.Status.Phase) {
		return *local.Status.DeepCopy()
	}
	return markFailed(local, phase, ReasonRemoteTerminated, "")
}

// Deleted returns the final status of a pod under deletion without remote objects. Controllers that count pod results, such as the
// Job controller, wait for it: a pod whose end was not observed has failed, unless all its containers succeeded.
func Deleted(local *corev1.Pod) corev1.PodStatus {
	switch {
	case policy.Ended(local.Status.Phase):
		return *local.Status.DeepCopy()
	case local.Status.Phase == corev1.PodPending || local.Status.Phase == "":
		return markFailed(local, corev1.PodFailed, ReasonNotStarted, "The pod was deleted before it started")
	case allSucceeded(local):
		return markFailed(local, corev1.PodSucceeded, ReasonRemoteTerminated, "")
	}
	return markFailed(local, corev1.PodFailed, ReasonRemoteTerminated, "")
}

func allSucceeded(local *corev1.Pod) bool {
	failed := func(s corev1.ContainerStatus) bool {
		return s.State.Terminated == nil || s.State.Terminated.ExitCode != 0
	}
	statuses := local.Status.ContainerStatuses
	return len(statuses) > 0 && len(statuses) == len(local.Spec.Containers) && !slices.ContainsFunc(statuses, failed)
}

// Missing returns the status of a pod while the provider has none. Nothing ended: the pod will be recreated. The phase
// stays unchanged, like the phase of a pod whose containers are restarted.
func Missing(local *corev1.Pod) corev1.PodStatus {
	if policy.Ended(local.Status.Phase) || NeverStarted(local) {
		return *local.Status.DeepCopy()
	}
	return markFailed(local, local.Status.Phase, ReasonRemoteMissing, "")
}

// markFailed sets phase and reason; the container states are no longer true. Conditions of other writers on a pod that will
// run again, such as readiness gates, are kept.
func markFailed(local *corev1.Pod, phase corev1.PodPhase, reason, message string) corev1.PodStatus {
	out := *local.Status.DeepCopy()
	out.Phase, out.Reason, out.Message = phase, reason, message
	for i := range out.Conditions {
		c := &out.Conditions[i]
		owned := policy.Ended(phase) || slices.Contains(ofKubelet, c.Type)
		if owned && c.Type != corev1.PodScheduled && c.Status == corev1.ConditionTrue {
			c.Status, c.Reason, c.Message = corev1.ConditionFalse, reason, message
		}
	}
	for _, list := range [][]corev1.ContainerStatus{out.InitContainerStatuses, out.ContainerStatuses} {
		for i := range list {
			if policy.Ended(phase) {
				list[i] = stoppedStatus(list[i], phase, reason)
			} else if list[i].State.Terminated == nil {
				list[i] = waitingStatus(list[i], reason, list[i].RestartCount)
			}
			list[i].Ready, list[i].Started = false, new(false)
		}
	}
	if !NeverStarted(local) {
		for i := range out.EphemeralContainerStatuses {
			out.EphemeralContainerStatuses[i] = stoppedStatus(out.EphemeralContainerStatuses[i], phase, reason)
		}
	}
	return out
}

// stoppedStatus returns the status of a container whose end was not observed.
func stoppedStatus(s corev1.ContainerStatus, phase corev1.PodPhase, reason string) corev1.ContainerStatus {
	if s.State.Terminated != nil {
		return s
	}
	ended := &corev1.ContainerStateTerminated{Reason: reason, ContainerID: s.ContainerID}
	if phase != corev1.PodSucceeded {
		ended.ExitCode = 1
	}
	if running := s.State.Running; running != nil {
		ended.StartedAt = running.StartedAt
	}
	s.Ready, s.State = false, corev1.ContainerState{Terminated: ended}
	return s
}
