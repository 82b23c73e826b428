// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// PodRequests returns the requests of the pod for each resource, plus one of "pods".
//
// Containers and sidecars (init containers that are always restarted) run together and add up. An ordinary init container runs
// beside the sidecars started before it, so the larger of the two phases counts. A request at pod level replaces the sum, and
// the overhead of the runtime class is added.
//
// The formula is that of KEP-753, "Resources calculation for scheduling and pod admission", of KEP-2837 for pod level and of
// KEP-688 for the overhead; a negative amount, which no Pod can have, counts as zero. The scheduler uses PodRequests of
// k8s.io/component-helpers/resource; a test compares the results.
func PodRequests(pod *corev1.PodSpec) corev1.ResourceList {
	need := ofContainers(pod, containerRequests)
	if pod.Resources != nil {
		maps.Copy(need, clampNegative(atPodLevel(pod, need)))
	}
	AddResources(need, clampNegative(pod.Overhead))
	need[corev1.ResourcePods] = *resource.NewQuantity(1, resource.DecimalSI)
	return need
}

// atPodLevel returns the requests at pod level. As in a container, a limit replaces an absent request, unless the containers
// have requests of their own.
func atPodLevel(pod *corev1.PodSpec, containers corev1.ResourceList) corev1.ResourceList {
	whole := corev1.ResourceList{}
	for name, request := range pod.Resources.Requests {
		if mayBeAtPodLevel(name) {
			whole[name] = request
		}
	}
	for name, limit := range pod.Resources.Limits {
		_, requested := whole[name]
		_, summed := containers[name]
		if mayBeAtPodLevel(name) && !requested && !summed {
			whole[name] = limit
		}
	}
	return whole
}

func mayBeAtPodLevel(name corev1.ResourceName) bool {
	return name == corev1.ResourceCPU || name == corev1.ResourceMemory || strings.HasPrefix(string(name), corev1.ResourceHugePagesPrefix)
}

// PodUsage returns the usage of an existing pod. During an in-place resize of its containers, the usage is the maximum of the
// desired, the allocated and the actual requests.
func PodUsage(pod *corev1.Pod) corev1.ResourceList {
	if !slices.ContainsFunc(slices.Concat(pod.Status.ContainerStatuses, pod.Status.InitContainerStatuses), isResized) {
		return PodRequests(&pod.Spec)
	}
	spec := pod.Spec.DeepCopy()
	if spec.Resources != nil {
		spec.Resources.Limits = nil // the requests that limits replace were set when the pod was created
	}
	never := slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodResizePending && c.Reason == corev1.PodReasonInfeasible
	})
	for i := range spec.Containers {
		setResizedRequests(&spec.Containers[i], pod.Status.ContainerStatuses, never)
	}
	for i := range spec.InitContainers {
		if isSidecar(&spec.InitContainers[i]) {
			setResizedRequests(&spec.InitContainers[i], pod.Status.InitContainerStatuses, never)
		}
	}
	return PodRequests(spec)
}

func isResized(s corev1.ContainerStatus) bool { return s.Resources != nil }

// setResizedRequests sets the requests of the container that count during a resize. A resize that is infeasible on its node does not count.
func setResizedRequests(c *corev1.Container, statuses []corev1.ContainerStatus, never bool) {
	for _, s := range statuses {
		if s.Name != c.Name || !isResized(s) {
			continue
		}
		now := corev1.ResourceList{}
		RaiseResources(now, s.Resources.Requests)
		RaiseResources(now, s.AllocatedResources)
		if !never {
			RaiseResources(now, containerRequests(c))
		}
		c.Resources = corev1.ResourceRequirements{Requests: now}
	}
}

// ofContainers combines one list per container into that of the pod.
func ofContainers(pod *corev1.PodSpec, of func(*corev1.Container) corev1.ResourceList) corev1.ResourceList {
	total, sidecars, peak := corev1.ResourceList{}, corev1.ResourceList{}, corev1.ResourceList{}
	for i := range pod.Containers {
		AddResources(total, of(&pod.Containers[i]))
	}
	for i := range pod.InitContainers {
		c := &pod.InitContainers[i]
		if isSidecar(c) {
			AddResources(sidecars, of(c))
			RaiseResources(peak, sidecars)
			continue
		}
		running := maps.Clone(sidecars)
		AddResources(running, of(c))
		RaiseResources(peak, running)
	}
	AddResources(total, sidecars)
	RaiseResources(total, peak)
	return total
}

func isSidecar(c *corev1.Container) bool {
	return c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways
}

// containerRequests returns the container's requests as the API server defaults them: a limit without a request is also the request. The
// spec of a ShadowPod does not get that defaulting.
func containerRequests(c *corev1.Container) corev1.ResourceList {
	out := maps.Clone(c.Resources.Limits)
	if out == nil {
		out = corev1.ResourceList{}
	}
	maps.Copy(out, c.Resources.Requests)
	return clampNegative(out)
}

// SetDefaultRequests sets the default requests of each container for resources that have neither a request nor a limit in the
// container or at pod level.
func SetDefaultRequests(pod *corev1.PodSpec, defaults corev1.ResourceList) {
	whole := corev1.ResourceList{}
	if pod.Resources != nil {
		whole = atPodLevel(pod, nil)
	}
	for _, list := range [][]corev1.Container{pod.InitContainers, pod.Containers} {
		for i := range list {
			r, named := &list[i].Resources, containerRequests(&list[i])
			for name, amount := range defaults {
				_, has := named[name]
				if _, together := whole[name]; has || together {
					continue
				}
				if r.Requests == nil {
					r.Requests = corev1.ResourceList{}
				}
				r.Requests[name] = amount.DeepCopy()
			}
		}
	}
}

// AddResources adds more to sum, in place. Quantities are values, so sum and more share nothing.
func AddResources(sum, more corev1.ResourceList) {
	for name, q := range more {
		current := sum[name].DeepCopy()
		current.Add(q)
		sum[name] = current
	}
}

// SubtractResources subtracts less from sum, in place. The result is never negative.
func SubtractResources(sum, less corev1.ResourceList) {
	for name, q := range less {
		current := sum[name].DeepCopy()
		if current.Sub(q); current.Sign() < 0 {
			current = resource.Quantity{Format: current.Format}
		}
		sum[name] = current
	}
}

// RaiseResources raises floor to other, in place.
func RaiseResources(floor, other corev1.ResourceList) {
	for name, q := range other {
		if current, ok := floor[name]; !ok || current.Cmp(q) < 0 {
			floor[name] = q.DeepCopy()
		}
	}
}
