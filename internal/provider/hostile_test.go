// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package provider

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"
	"sigs.k8s.io/controller-runtime/pkg/client"

	offv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/policy"
)

var countedResources = []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory, "example.com/gpu"}

func anyAmounts(t *rapid.T, label string) corev1.ResourceList {
	return rapid.MapOfN(rapid.SampledFrom(countedResources), rapid.Custom(func(t *rapid.T) resource.Quantity {
		return resource.MustParse(rapid.StringMatching(`-?([0-9]{1,3}|[0-9]{1,4}m|1000000Ti)`).Draw(t, "amount"))
	}), 0, 3).Draw(t, label)
}

func anyContainer(t *rapid.T) corev1.Container {
	return corev1.Container{Resources: corev1.ResourceRequirements{Requests: anyAmounts(t, "requests"), Limits: anyAmounts(t, "limits")}}
}

// Whatever pods a consumer asks for, nothing is used that is less than nothing, and what is used together never exceeds what was granted.
func TestHostileQuotaUsage(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := newQuotaCache(true, func(types.NamespacedName) {})
		budget := &offv1beta1.Quota{Spec: offv1beta1.QuotaSpec{User: "user", Resources: corev1.ResourceList{
			corev1.ResourceCPU: resource.MustParse("500"), corev1.ResourceMemory: resource.MustParse("500"), "example.com/gpu": resource.MustParse("100"),
		}}}
		shadow := func(t *rapid.T) *offv1beta1.ShadowPod {
			sp := asked("twin", fmt.Sprint("p", rapid.IntRange(0, 5).Draw(t, "name")), "grey", "user", "1")
			sp.Spec.Pod.Containers = []corev1.Container{anyContainer(t)}
			if rapid.Bool().Draw(t, "init container") {
				sp.Spec.Pod.InitContainers = []corev1.Container{anyContainer(t)}
			}
			sp.Spec.Pod.Overhead = anyAmounts(t, "overhead")
			if rapid.Bool().Draw(t, "pod level") {
				sp.Spec.Pod.Resources = &corev1.ResourceRequirements{Requests: anyAmounts(t, "pod requests"), Limits: anyAmounts(t, "pod limits")}
			}
			return sp
		}
		created := map[string]*corev1.Pod{}
		t.Repeat(map[string]func(*rapid.T){
			"ask and be refused": func(t *rapid.T) {
				sp := shadow(t)
				if created[sp.Name] == nil && l.Reserve(sp, budget, false) == nil {
					l.Release(client.ObjectKeyFromObject(sp))
				}
			},
			"ask": func(t *rapid.T) {
				sp := shadow(t)
				if created[sp.Name] != nil || l.Reserve(sp, budget, false) != nil {
					return
				}
				pod := &corev1.Pod{ObjectMeta: *sp.ObjectMeta.DeepCopy(), Spec: sp.Spec.Pod}
				pod.UID = types.UID(sp.Name)
				l.Made(pod, "")
				created[sp.Name] = pod
			},
			"see": func(t *rapid.T) {
				for _, pod := range created {
					l.ObservePod(pod)
				}
			},
			"end": func(t *rapid.T) {
				name := fmt.Sprint("p", rapid.IntRange(0, 5).Draw(t, "name"))
				if pod := created[name]; pod != nil {
					l.ObservePod(pod)
					l.ObserveEnd(pod)
					delete(created, name)
				}
			},
			"": func(t *rapid.T) {
				b := l.usages[account{"grey", "user"}]
				if b == nil {
					return
				}
				sum := corev1.ResourceList{}
				for _, pod := range created {
					policy.AddResources(sum, policy.PodRequests(&pod.Spec))
				}
				if short := policy.FindShortages(sum, nil, budget.Spec.Resources); short != nil {
					t.Fatalf("pods have more than was granted: %v", short)
				}
				for name, q := range b.used {
					if q.Sign() < 0 {
						t.Fatalf("%s of %s are used", q.String(), name)
					}
				}
				if short := policy.FindShortages(sum, nil, b.used); short != nil {
					t.Fatalf("less is counted than the pods have: %v", short)
				}
			},
		})
	})
}
