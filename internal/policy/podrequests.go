// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"maps"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	helpers "k8s.io/component-helpers/resource"
)

// PodRequests returns the requests of the pod for each resource, plus one of "pods", as the scheduler counts them: containers and
// sidecars run together and add up, an ordinary init container runs beside the sidecars started before it, and the larger of the
// two phases counts. A request at pod level replaces the sum, and the overhead of the runtime class is added. A negative amount,
// impossible in a Pod, counts as zero.
func PodRequests(pod *corev1.PodSpec) corev1.ResourceList {
	return schedulerRequests(&corev1.Pod{Spec: *pod}, helpers.PodResourcesOptions{})
}

// PodUsage returns the usage of an existing pod. During an in-place resize, the usage is the maximum of the desired, the allocated
// and the actual requests.
func PodUsage(pod *corev1.Pod) corev1.ResourceList {
	return schedulerRequests(pod, helpers.PodResourcesOptions{
		UseStatusResources: true, InPlacePodLevelResourcesVerticalScalingEnabled: true, UseDRANodeAllocatableResourceClaimStatus: true,
	})
}

// schedulerRequests returns the scheduler's count for the pod in the form stored by the API server.
func schedulerRequests(pod *corev1.Pod, options helpers.PodResourcesOptions) corev1.ResourceList {
	stored := &corev1.Pod{Status: pod.Status, Spec: corev1.PodSpec{
		Containers: storedRequests(pod.Spec.Containers), InitContainers: storedRequests(pod.Spec.InitContainers),
		Overhead: clampNegative(pod.Spec.Overhead),
	}}
	if pod.Spec.Resources != nil {
		whole := atPodLevel(&pod.Spec, helpers.AggregateContainerRequests(stored, helpers.PodResourcesOptions{}))
		stored.Spec.Resources = &corev1.ResourceRequirements{Requests: clampNegative(whole)}
	}
	need := helpers.PodRequests(stored, options)
	need[corev1.ResourcePods] = *resource.NewQuantity(1, resource.DecimalSI)
	return need
}

// storedRequests returns the containers with their requests as the API server stores them, and without other fields.
func storedRequests(containers []corev1.Container) []corev1.Container {
	out := make([]corev1.Container, len(containers))
	for i := range containers {
		out[i].Name, out[i].RestartPolicy = containers[i].Name, containers[i].RestartPolicy
		out[i].Resources.Requests = containerRequests(&containers[i])
	}
	return out
}

// atPodLevel returns the requests at pod level. As in a container, a limit replaces an absent request, unless the containers
// have requests of their own.
func atPodLevel(pod *corev1.PodSpec, containers corev1.ResourceList) corev1.ResourceList {
	whole := corev1.ResourceList{}
	for name, request := range pod.Resources.Requests {
		if helpers.IsSupportedPodLevelResource(name) {
			whole[name] = request
		}
	}
	for name, limit := range pod.Resources.Limits {
		_, requested := whole[name]
		_, summed := containers[name]
		if helpers.IsSupportedPodLevelResource(name) && !requested && !summed {
			whole[name] = limit
		}
	}
	return whole
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
