// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package translate

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"liqo.io/liqo/internal/names"
)

// ofKubelet are the conditions of the running pod: the remote ones replace the local ones.
var ofKubelet = []corev1.PodConditionType{
	corev1.PodScheduled, corev1.PodInitialized, corev1.ContainersReady, corev1.PodReady,
	corev1.PodReadyToStartContainers, corev1.PodResizePending, corev1.PodResizeInProgress,
}

// translateConditions returns the remote conditions and the local conditions of other writers. Readiness gates are set locally, and
// readiness is decided locally: a gate of the same name in the provider is a different gate.
func translateConditions(in StatusInput) []corev1.PodCondition {
	local := in.Local
	var out []corev1.PodCondition
	for _, c := range in.Remote.Status.Conditions {
		if !isGate(local, c.Type) {
			c.ObservedGeneration = 0
			out = append(out, c)
		}
	}
	for _, c := range local.Status.Conditions {
		if !slices.Contains(ofKubelet, c.Type) && !hasCondition(out, c.Type) && !isOutdated(c, in) {
			out = append(out, c)
		}
	}
	switch {
	case local.Labels[names.RemoteUnavailable] == "true":
		return notReady(out, local, "RemoteUnavailable", "the virtual node of the pod is not ready")
	case !gatesOpen(local):
		return notReady(out, local, "ReadinessGatesNotReady", "a readiness gate of the pod is not open")
	}
	return keepTransition(out, local)
}

// isOutdated reports whether a condition is about an earlier remote pod: the disruption that ended this pod is over.
func isOutdated(c corev1.PodCondition, in StatusInput) bool {
	return c.Type == corev1.DisruptionTarget && in.Local.DeletionTimestamp.IsZero() && c.LastTransitionTime.Before(&in.Remote.CreationTimestamp)
}

func isGate(pod *corev1.Pod, t corev1.PodConditionType) bool {
	return slices.ContainsFunc(pod.Spec.ReadinessGates, func(g corev1.PodReadinessGate) bool { return g.ConditionType == t })
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

// notReady overrides readiness; the remote transition time stays, as no clock is read here.
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

// keepTransition keeps the local transition time of a condition whose status did not change, if the remote one
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
