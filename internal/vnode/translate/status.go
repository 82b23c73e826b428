// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package translate

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"liqo.io/liqo/internal/names"
)

// StatusInput is what the local status of an offloaded pod is made from.
type StatusInput struct {
	Local, Remote *corev1.Pod
	// HostIPs are the addresses of the virtual node.
	HostIPs []string
	// HideIPs leaves the addresses of the pod out.
	HideIPs bool
	// Restarts is what Count returned for this pair of pods.
	Restarts Restarts
}

// PodStatus is the remote status as this cluster sees it. A pod that ended stays ended, whatever the provider says later.
func PodStatus(in StatusInput) corev1.PodStatus {
	if terminal(in.Local.Status.Phase) && in.Remote.Status.Phase != in.Local.Status.Phase {
		return *in.Local.Status.DeepCopy()
	}
	out := *in.Remote.Status.DeepCopy()
	keepLocal(&out, in.Local)
	out.HostIP, out.HostIPs = "", nil
	for _, ip := range in.HostIPs {
		out.HostIPs = append(out.HostIPs, corev1.HostIP{IP: ip})
	}
	if len(in.HostIPs) > 0 {
		out.HostIP = in.HostIPs[0]
	}
	if in.HideIPs {
		out.PodIP, out.PodIPs = "", nil
	}
	pod := in.Local
	out.ContainerStatuses = containers(out.ContainerStatuses, pod.Status.ContainerStatuses, pod, pod.Spec.Containers, in.Restarts)
	out.InitContainerStatuses = containers(out.InitContainerStatuses, pod.Status.InitContainerStatuses, pod, pod.Spec.InitContainers, in.Restarts)
	out.Conditions = conditions(out.Conditions, in.Local)
	return out
}

func terminal(p corev1.PodPhase) bool { return p == corev1.PodSucceeded || p == corev1.PodFailed }

// keepLocal restores what the remote cluster cannot know, or what the API server refuses to change.
func keepLocal(out *corev1.PodStatus, local *corev1.Pod) {
	out.QOSClass = local.Status.QOSClass
	out.NominatedNodeName = local.Status.NominatedNodeName
	out.EphemeralContainerStatuses = local.Status.EphemeralContainerStatuses
	out.ResourceClaimStatuses = local.Status.ResourceClaimStatuses
	out.ExtendedResourceClaimStatus = local.Status.ExtendedResourceClaimStatus
	out.ObservedGeneration = local.Generation
}

// ofKubelet are the conditions that describe the one pod that runs: the remote ones replace the local ones.
var ofKubelet = []corev1.PodConditionType{
	corev1.PodScheduled, corev1.PodInitialized, corev1.ContainersReady, corev1.PodReady,
	corev1.PodReadyToStartContainers, corev1.PodResizePending, corev1.PodResizeInProgress,
}

// conditions are the remote ones and those that others set on the local pod. Gates are opened here, so readiness is
// decided here.
func conditions(remote []corev1.PodCondition, local *corev1.Pod) []corev1.PodCondition {
	out := slices.Clone(remote)
	for i := range out {
		out[i].ObservedGeneration = 0
	}
	for _, c := range local.Status.Conditions {
		if !slices.Contains(ofKubelet, c.Type) && !hasCondition(out, c.Type) {
			out = append(out, c)
		}
	}
	switch {
	case local.Labels[names.RemoteUnavailable] == "true":
		return notReady(out, local, "RemoteUnavailable", "the provider cannot be reached")
	case !gatesOpen(local):
		return notReady(out, local, "ReadinessGatesNotReady", "a readiness gate of the pod is not open")
	}
	return keepTransition(out, local)
}

func gatesOpen(pod *corev1.Pod) bool {
	for _, gate := range pod.Spec.ReadinessGates {
		if !slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
			return c.Type == gate.ConditionType && c.Status == corev1.ConditionTrue
		}) {
			return false
		}
	}
	return true
}

func hasCondition(list []corev1.PodCondition, t corev1.PodConditionType) bool {
	return slices.ContainsFunc(list, func(c corev1.PodCondition) bool { return c.Type == t })
}

// notReady overrides readiness; the remote time of transition stays, as no clock is read here.
func notReady(list []corev1.PodCondition, local *corev1.Pod, reason, message string) []corev1.PodCondition {
	i := slices.IndexFunc(list, func(c corev1.PodCondition) bool { return c.Type == corev1.PodReady })
	if i < 0 {
		list = append(list, corev1.PodCondition{Type: corev1.PodReady})
		i = len(list) - 1
	}
	if list[i].Status != corev1.ConditionFalse {
		list[i].Status, list[i].Reason, list[i].Message = corev1.ConditionFalse, reason, message
	}
	return keepTransition(list, local)
}

// keepTransition keeps the local time of transition of a condition whose value did not change, where the remote one
// has none.
func keepTransition(list []corev1.PodCondition, local *corev1.Pod) []corev1.PodCondition {
	for i := range list {
		for _, c := range local.Status.Conditions {
			if c.Type == list[i].Type && c.Status == list[i].Status && list[i].LastTransitionTime.IsZero() {
				list[i].LastTransitionTime = c.LastTransitionTime
			}
		}
	}
	return list
}

// containers are the remote statuses with the restarts of earlier remote pods. A container that a new remote pod does
// not report yet is shown as waiting, so that its restarts are not forgotten, and one that may not run again stays ended.
func containers(remote, local []corev1.ContainerStatus, pod *corev1.Pod, specs []corev1.Container, r Restarts) []corev1.ContainerStatus {
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
			out = append(out, waiting(old, "ContainerCreating", r.Total(old.Name, 0)))
		}
	}
	return out
}

func waiting(old corev1.ContainerStatus, reason string, restarts int32) corev1.ContainerStatus {
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

// endedForGood tells whether the API server would refuse to see this container run again.
func endedForGood(old corev1.ContainerStatus, pod *corev1.Pod, specs []corev1.Container) bool {
	if old.State.Terminated == nil {
		return false
	}
	policy := pod.Spec.RestartPolicy
	for _, c := range specs {
		if c.Name != old.Name {
			continue
		}
		if len(c.RestartPolicyRules) > 0 {
			return false
		}
		if c.RestartPolicy != nil {
			policy = corev1.RestartPolicy(*c.RestartPolicy)
		}
	}
	switch policy {
	case corev1.RestartPolicyNever:
		return true
	case corev1.RestartPolicyOnFailure:
		return old.State.Terminated.ExitCode == 0
	}
	return false
}
