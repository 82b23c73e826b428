// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
)

func TestPodProblem(t *testing.T) {
	waiting := func(reason, message string) corev1.ContainerStatus {
		return corev1.ContainerStatus{State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: message}}}
	}
	crashed := waiting("CrashLoopBackOff", "back-off 10s")
	crashed.LastTerminationState.Terminated = &corev1.ContainerStateTerminated{ExitCode: 2, Message: "I1120 starting\nno such flag\n"}
	for want, status := range map[string]corev1.PodStatus{
		"":                        {Phase: corev1.PodSucceeded},
		"ErrImagePull: not found": {ContainerStatuses: []corev1.ContainerStatus{waiting("ErrImagePull", "not found")}},
		"CrashLoopBackOff, exit code 2: no such flag": {ContainerStatuses: []corev1.ContainerStatus{crashed}},
		"Unschedulable: 0/1 nodes are available": {Conditions: []corev1.PodCondition{
			{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: "Unschedulable", Message: "0/1 nodes are available"},
		}},
		"ContainerCreating": {ContainerStatuses: []corev1.ContainerStatus{waiting("ContainerCreating", "")}},
		"exit code 137: OOMKilled": {InitContainerStatuses: []corev1.ContainerStatus{
			{State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 137, Reason: "OOMKilled"}}},
		}},
		"ContainersNotReady: waiting for c": {
			ContainerStatuses: []corev1.ContainerStatus{waiting("ContainerCreating", "")},
			Conditions:        []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionFalse, Reason: "ContainersNotReady", Message: "waiting for c"}},
		},
	} {
		if got := PodProblemOf(&corev1.Pod{Status: status}).String(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
