// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

// Package quota counts what a pod takes from a cluster, the way the Kubernetes scheduler counts it, and says what still
// fits into a budget.
package quota

import (
	"maps"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// Need is what the pod requests of each resource, plus one of "pods".
//
// Containers and sidecars (init containers that are restarted always) run together and add up. An ordinary init container
// runs beside the sidecars started before it, so the larger of the two phases counts. A request at pod level replaces the
// sum, and the overhead of the runtime class comes on top.
func Need(pod *corev1.PodSpec) corev1.ResourceList {
	need := ofContainers(pod, requests)
	if pod.Resources != nil {
		maps.Copy(need, atPodLevel(pod, need))
	}
	add(need, pod.Overhead)
	need[corev1.ResourcePods] = *resource.NewQuantity(1, resource.DecimalSI)
	return need
}

// atPodLevel is what the pod asks for as a whole. As in a container, a limit stands in for a request that is absent,
// unless the containers have requests of their own.
func atPodLevel(pod *corev1.PodSpec, containers corev1.ResourceList) corev1.ResourceList {
	whole := maps.Clone(pod.Resources.Requests)
	if whole == nil {
		whole = corev1.ResourceList{}
	}
	for name, limit := range pod.Resources.Limits {
		_, asked := whole[name]
		_, summed := containers[name]
		if !asked && !summed {
			whole[name] = limit
		}
	}
	return whole
}

// ofContainers combines one list per container to that of the pod.
func ofContainers(pod *corev1.PodSpec, of func(*corev1.Container) corev1.ResourceList) corev1.ResourceList {
	total, sidecars, peak := corev1.ResourceList{}, corev1.ResourceList{}, corev1.ResourceList{}
	for i := range pod.Containers {
		add(total, of(&pod.Containers[i]))
	}
	for i := range pod.InitContainers {
		c := &pod.InitContainers[i]
		if isSidecar(c) {
			add(sidecars, of(c))
			atLeast(peak, sidecars)
			continue
		}
		running := maps.Clone(sidecars)
		add(running, of(c))
		atLeast(peak, running)
	}
	add(total, sidecars)
	atLeast(total, peak)
	return total
}

func isSidecar(c *corev1.Container) bool {
	return c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways
}

// requests are the container's requests as the API server defaults them: a limit without a request is also the request.
// A ShadowPod's spec has not been through that defaulting.
func requests(c *corev1.Container) corev1.ResourceList {
	out := maps.Clone(c.Resources.Limits)
	if out == nil {
		out = corev1.ResourceList{}
	}
	maps.Copy(out, c.Resources.Requests)
	return out
}

// add and atLeast change the first list in place; quantities are values, so nothing of the second one is shared.
func add(sum, more corev1.ResourceList) {
	for name, q := range more {
		have := sum[name].DeepCopy()
		have.Add(q)
		sum[name] = have
	}
}

func atLeast(floor, other corev1.ResourceList) {
	for name, q := range other {
		if have, ok := floor[name]; !ok || have.Cmp(q) < 0 {
			floor[name] = q.DeepCopy()
		}
	}
}
