// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package translate

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// translateContainers returns the remote statuses with the restarts of earlier remote pods. A container not yet reported by a new
// remote pod is published as waiting, to keep its restarts, and a container that may not run again stays ended.
func translateContainers(remote, local []corev1.ContainerStatus, pod *corev1.Pod, specs []corev1.Container, r Restarts) []corev1.ContainerStatus {
	out := slices.Clone(remote)
	for i := range out {
		out[i].RestartCount = r.Total(out[i].Name, out[i].RestartCount)
	}
	for _, old := range local {
		i := slices.IndexFunc(out, func(s corev1.ContainerStatus) bool { return s.Name == old.Name })
		switch {
		case endedForGood(old, pod, specs) && (i < 0 || out[i].State.Terminated == nil):
			if i < 0 {
				out = append(out, old)
			} else {
				out[i] = old
			}
		case i < 0:
			out = append(out, waitingStatus(old, "ContainerCreating", r.Total(old.Name, 0)))
		}
	}
	return out
}

func waitingStatus(old corev1.ContainerStatus, reason string, restarts int32) corev1.ContainerStatus {
	last := old.LastTerminationState
	if old.State.Terminated != nil {
		last = old.State
	}
	return corev1.ContainerStatus{
		Name: old.Name, Image: old.Image, ImageID: old.ImageID, Started: new(false), LastTerminationState: last,
		State:        corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason}},
		RestartCount: max(restarts, old.RestartCount),
	}
}

// endedForGood reports whether the API server would refuse a status in which this container runs again.
func endedForGood(old corev1.ContainerStatus, pod *corev1.Pod, specs []corev1.Container) bool {
	if old.State.Terminated == nil || restartsAll(pod) {
		return false
	}
	code, policy := old.State.Terminated.ExitCode, pod.Spec.RestartPolicy
	for _, c := range specs {
		if c.Name != old.Name || c.RestartPolicy == nil {
			continue
		}
		if slices.ContainsFunc(c.RestartPolicyRules, func(r corev1.ContainerRestartRule) bool { return restartsOn(r, code) }) {
			return false
		}
		policy = corev1.RestartPolicy(*c.RestartPolicy)
	}
	switch policy {
	case corev1.RestartPolicyNever:
		return true
	case corev1.RestartPolicyOnFailure:
		return code == 0
	}
	return false
}

func restartsOn(rule corev1.ContainerRestartRule, code int32) bool {
	if rule.Action != corev1.ContainerRestartRuleActionRestart || rule.ExitCodes == nil {
		return false
	}
	listed := slices.Contains(rule.ExitCodes.Values, code)
	return listed == (rule.ExitCodes.Operator == corev1.ContainerRestartRuleOnExitCodesOpIn)
}

// restartsAll reports whether the end of one container may restart all containers.
func restartsAll(pod *corev1.Pod) bool {
	return slices.ContainsFunc(slices.Concat(pod.Spec.InitContainers, pod.Spec.Containers), func(c corev1.Container) bool {
		return slices.ContainsFunc(c.RestartPolicyRules, func(r corev1.ContainerRestartRule) bool {
			return r.Action == corev1.ContainerRestartRuleActionRestartAllContainers
		})
	})
}

// ephemeralStatuses returns the remote statuses, and the statuses of ended containers: ephemeral containers never run again, and
// containers missing in a new remote pod have ended with the old pod.
func ephemeralStatuses(remote, local []corev1.ContainerStatus) []corev1.ContainerStatus {
	out := slices.Clone(remote)
	for _, old := range local {
		i := slices.IndexFunc(out, func(s corev1.ContainerStatus) bool { return s.Name == old.Name })
		switch {
		case i < 0:
			out = append(out, stoppedStatus(old, corev1.PodFailed, ReasonRemoteMissing))
		case old.State.Terminated != nil && out[i].State.Terminated == nil:
			out[i] = old
		}
	}
	return out
}
