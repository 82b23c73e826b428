// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package story

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// Refusal is a pod that a provider does not run, and how its owner is told.
type Refusal struct {
	Name string
	spec string
	// Event is the reason of the event on the consumer's pod.
	Event string
	// Told returns an error until the status of a pod says it.
	Told func(*corev1.Pod) error
	// There tells that the provider's own pod exists and says the same.
	There bool
}

// accepted is the condition of a pod that the provider does not even make.
const accepted corev1.PodConditionType = "offloading.liqo.io/Accepted"

// Refusals are one of each kind, on the virtual node of a provider whose real nodes have fewer than 15 CPUs. The last one
// leaves no room on the virtual node.
func Refusals(virtualNode string) []Refusal {
	return []Refusal{
		{
			Name: "image", Event: "RemoteImageFailed", Told: waiting("ErrImageNeverPull"), There: true,
			spec: "containers: [{name: c, image: absent.example/absent, imagePullPolicy: Never}]",
		},
		{
			Name: "unschedulable", Event: "RemoteUnschedulable", Told: condition(corev1.PodScheduled, corev1.PodReasonUnschedulable), There: true,
			spec: "containers: [{name: c, image: busybox, resources: {requests: {cpu: 15}}}]",
		},
		{
			Name: "admission", Event: "FailedReflection", Told: condition(accepted, "Refused"),
			spec: "containers: [{name: c, image: busybox, securityContext: {privileged: true}}]",
		},
		{
			Name: "quota", Event: "FailedReflection", Told: condition(accepted, "Refused"),
			// It names its node: the scheduler knows better than to choose a node that is too small. Such a pod is not steered,
			// and has to say itself that it may stay.
			spec: fmt.Sprintf("nodeName: %s, tolerations: [{key: virtual-node.liqo.io/not-allowed, operator: Exists}], containers: [{name: c, image: busybox, resources: {requests: {cpu: 21}}}]", virtualNode),
		},
	}
}

// Pod is the name of the pod, and Manifest the pod itself.
func (r Refusal) Pod() string { return "refused-" + r.Name }

func (r Refusal) Manifest() string {
	return fmt.Sprintf("{apiVersion: v1, kind: Pod, metadata: {name: %s}, spec: {terminationGracePeriodSeconds: 1, %s}}\n", r.Pod(), r.spec)
}

// Shown returns an error until the status and one of the events of the consumer's pod say it.
func (r Refusal) Shown(pod *corev1.Pod, events []corev1.Event) error {
	if err := r.Told(pod); err != nil {
		return err
	}
	var reasons []string
	for i := range events {
		if e := &events[i]; e.InvolvedObject.UID == pod.UID {
			if e.Reason == r.Event {
				return nil
			}
			reasons = append(reasons, e.Reason)
		}
	}
	return fmt.Errorf("no event %s, but %s", r.Event, strings.Join(reasons, ", "))
}

func condition(kind corev1.PodConditionType, reason string) func(*corev1.Pod) error {
	return func(pod *corev1.Pod) error {
		for _, c := range pod.Status.Conditions {
			if c.Type == kind && c.Status == corev1.ConditionFalse && c.Reason == reason && c.Message != "" {
				return nil
			}
		}
		return fmt.Errorf("no condition %s with %s: %+v", kind, reason, pod.Status.Conditions)
	}
}

func waiting(reason string) func(*corev1.Pod) error {
	return func(pod *corev1.Pod) error {
		for _, c := range pod.Status.ContainerStatuses {
			if c.State.Waiting != nil && c.State.Waiting.Reason == reason {
				return nil
			}
		}
		return fmt.Errorf("no container waits with %s: %+v", reason, pod.Status.ContainerStatuses)
	}
}
