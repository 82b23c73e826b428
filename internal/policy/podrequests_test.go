// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"fmt"
	"maps"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apiresource "k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/component-helpers/resource"
	"pgregory.net/rapid"
)

var someResources = []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory, corev1.ResourceEphemeralStorage, "hugepages-2Mi", "nvidia.com/gpu"}

func randomList(t *rapid.T, label string) corev1.ResourceList {
	return rapid.MapOfN(rapid.SampledFrom(someResources), rapid.Custom(func(t *rapid.T) apiresource.Quantity {
		return apiresource.MustParse(fmt.Sprintf("%d%s", rapid.IntRange(0, 4000).Draw(t, "n"), rapid.SampledFrom([]string{"", "m", "Mi", "k"}).Draw(t, "unit")))
	}), 0, 3).Draw(t, label)
}

func randomContainer(t *rapid.T, name string, init bool) corev1.Container {
	c := corev1.Container{Name: name, Resources: corev1.ResourceRequirements{Requests: randomList(t, "requests"), Limits: randomList(t, "limits")}}
	if init && rapid.Bool().Draw(t, "sidecar") {
		c.RestartPolicy = new(corev1.ContainerRestartPolicyAlways)
	}
	return c
}

func randomPod(t *rapid.T) *corev1.Pod {
	pod := &corev1.Pod{}
	for i := range rapid.IntRange(0, 3).Draw(t, "containers") {
		pod.Spec.Containers = append(pod.Spec.Containers, randomContainer(t, fmt.Sprint("c", i), false))
	}
	for i := range rapid.IntRange(0, 3).Draw(t, "init containers") {
		pod.Spec.InitContainers = append(pod.Spec.InitContainers, randomContainer(t, fmt.Sprint("i", i), true))
	}
	if rapid.Bool().Draw(t, "overhead") {
		pod.Spec.Overhead = randomList(t, "overhead")
	}
	if rapid.Bool().Draw(t, "pod level") {
		pod.Spec.Resources = &corev1.ResourceRequirements{Requests: randomList(t, "pod requests"), Limits: randomList(t, "pod limits")}
	}
	return pod
}

// defaulted is the pod as the API server stores it: limits stand in for requests, first in containers, then in the pod.
func defaulted(pod *corev1.Pod) *corev1.Pod {
	out := pod.DeepCopy()
	fill := func(r *corev1.ResourceRequirements, may func(corev1.ResourceName) bool) {
		for name, limit := range r.Limits {
			if _, requested := r.Requests[name]; !requested && may(name) {
				if r.Requests == nil {
					r.Requests = corev1.ResourceList{}
				}
				r.Requests[name] = limit
			}
		}
	}
	always := func(corev1.ResourceName) bool { return true }
	for i := range out.Spec.Containers {
		fill(&out.Spec.Containers[i].Resources, always)
	}
	for i := range out.Spec.InitContainers {
		fill(&out.Spec.InitContainers[i].Resources, always)
	}
	if out.Spec.Resources != nil {
		summed := resource.AggregateContainerRequests(out, resource.PodResourcesOptions{})
		fill(out.Spec.Resources, func(name corev1.ResourceName) bool {
			_, has := summed[name]
			return resource.IsSupportedPodLevelResource(name) && !has
		})
	}
	return out
}

func sameAsScheduler(t *rapid.T, what string, got, want corev1.ResourceList) {
	want = maps.Clone(want)
	want[corev1.ResourcePods] = apiresource.MustParse("1")
	for name := range want {
		g, w := got[name], want[name]
		if g.Cmp(w) != 0 {
			t.Fatalf("%s: %s is %s, the scheduler says %s", what, name, g.String(), w.String())
		}
	}
	for name, g := range got {
		if _, known := want[name]; !known && !g.IsZero() {
			t.Fatalf("%s: %s is %s, of which the scheduler says nothing", what, name, g.String())
		}
	}
}

func TestPodRequestsScheduler(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		pod := randomPod(t)
		stored := defaulted(pod)
		want := resource.PodRequests(stored, resource.PodResourcesOptions{})
		sameAsScheduler(t, "as it is sent", PodRequests(&pod.Spec), want)
		sameAsScheduler(t, "as it is stored", PodRequests(&stored.Spec), want)
		sameAsScheduler(t, "as it runs", PodUsage(stored), want)
	})
}

func TestPodUsageScheduler(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		pod := defaulted(randomPod(t))
		status := func(c *corev1.Container) corev1.ContainerStatus {
			s := corev1.ContainerStatus{Name: c.Name}
			if rapid.Bool().Draw(t, "reported") {
				s.Resources = &corev1.ResourceRequirements{Requests: randomList(t, "actual")}
				s.AllocatedResources = randomList(t, "allocated")
			}
			return s
		}
		for i := range pod.Spec.Containers {
			pod.Status.ContainerStatuses = append(pod.Status.ContainerStatuses, status(&pod.Spec.Containers[i]))
		}
		for i := range pod.Spec.InitContainers {
			pod.Status.InitContainerStatuses = append(pod.Status.InitContainerStatuses, status(&pod.Spec.InitContainers[i]))
		}
		if rapid.Bool().Draw(t, "infeasible") {
			pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodResizePending, Reason: corev1.PodReasonInfeasible}}
		}
		sameAsScheduler(t, "while it is resized", PodUsage(pod), resource.PodRequests(pod, resource.PodResourcesOptions{
			UseStatusResources: true, InPlacePodLevelResourcesVerticalScalingEnabled: true,
		}))
	})
}
