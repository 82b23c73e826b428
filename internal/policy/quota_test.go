// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"pgregory.net/rapid"

	offv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
)

// list reads "cpu=1 memory=1Gi".
func list(text string) corev1.ResourceList {
	out := corev1.ResourceList{}
	for _, f := range strings.Fields(text) {
		name, q, _ := strings.Cut(f, "=")
		out[corev1.ResourceName(name)] = resource.MustParse(q)
	}
	return out
}

func listText(l corev1.ResourceList) string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(l)) {
		q := l[name]
		parts = append(parts, fmt.Sprintf("%s=%s", name, q.String()))
	}
	return strings.Join(parts, " ")
}

func box(name, requests string) corev1.Container {
	return corev1.Container{Name: name, Resources: corev1.ResourceRequirements{Requests: list(requests)}}
}

func limited(name, requests, limits string) corev1.Container {
	c := box(name, requests)
	c.Resources.Limits = list(limits)
	return c
}

func sidecar(name, requests string) corev1.Container {
	c := box(name, requests)
	c.RestartPolicy = new(corev1.ContainerRestartPolicyAlways)
	return c
}

func TestPodRequests(t *testing.T) {
	for name, tc := range map[string]struct {
		pod  corev1.PodSpec
		want string
	}{
		"an empty pod is still one pod": {want: "pods=1"},
		"containers add up": {
			pod:  corev1.PodSpec{Containers: []corev1.Container{box("a", "cpu=100m memory=1Gi"), box("b", "cpu=900m")}},
			want: "cpu=1 memory=1Gi pods=1",
		},
		"largest init container": {
			pod: corev1.PodSpec{
				Containers:     []corev1.Container{box("a", "cpu=500m memory=2Gi")},
				InitContainers: []corev1.Container{box("i", "cpu=900m memory=1Gi"), box("j", "cpu=100m")},
			},
			want: "cpu=900m memory=2Gi pods=1",
		},
		"sidecars run beside the containers": {
			pod: corev1.PodSpec{
				Containers:     []corev1.Container{box("a", "cpu=1")},
				InitContainers: []corev1.Container{sidecar("s", "cpu=250m")},
			},
			want: "cpu=1250m pods=1",
		},
		"init container and earlier sidecars": {
			pod: corev1.PodSpec{
				Containers:     []corev1.Container{box("a", "cpu=100m")},
				InitContainers: []corev1.Container{sidecar("s", "cpu=1"), box("i", "cpu=2"), sidecar("t", "cpu=500m")},
			},
			want: "cpu=3 pods=1",
		},
		"a limit stands in for a request that is absent": {
			pod:  corev1.PodSpec{Containers: []corev1.Container{limited("a", "memory=1Gi", "cpu=2 memory=3Gi")}},
			want: "cpu=2 memory=1Gi pods=1",
		},
		"the overhead comes on top": {
			pod:  corev1.PodSpec{Containers: []corev1.Container{box("a", "cpu=1")}, Overhead: list("cpu=250m memory=64Mi")},
			want: "cpu=1250m memory=64Mi pods=1",
		},
		"a request at pod level replaces the sum": {
			pod: corev1.PodSpec{
				Containers: []corev1.Container{box("a", "cpu=1 memory=1Gi")},
				Resources:  &corev1.ResourceRequirements{Requests: list("cpu=3")},
				Overhead:   list("cpu=1"),
			},
			want: "cpu=4 memory=1Gi pods=1",
		},
		"pod level limit without request": {
			pod: corev1.PodSpec{
				Containers: []corev1.Container{box("a", "cpu=1")},
				Resources:  &corev1.ResourceRequirements{Limits: list("cpu=4 memory=4Gi")},
			},
			want: "cpu=1 memory=4Gi pods=1",
		},
		"what is negative makes no room": {
			pod: corev1.PodSpec{
				Containers:     []corev1.Container{box("a", "cpu=-5 memory=1Gi"), limited("b", "", "cpu=1 memory=-9Gi")},
				InitContainers: []corev1.Container{sidecar("s", "cpu=-1"), box("i", "cpu=-9")},
				Overhead:       list("cpu=-1 memory=-1Gi"),
			},
			want: "cpu=1 memory=1Gi pods=1",
		},
		"nor at pod level": {
			pod:  corev1.PodSpec{Containers: []corev1.Container{box("a", "cpu=1")}, Resources: &corev1.ResourceRequirements{Requests: list("cpu=-3")}},
			want: "cpu=0 pods=1",
		},
		"extended resources are counted like any other": {
			pod:  corev1.PodSpec{Containers: []corev1.Container{limited("a", "", "nvidia.com/gpu=2"), limited("b", "", "nvidia.com/gpu=1")}},
			want: "nvidia.com/gpu=3 pods=1",
		},
	} {
		t.Run(name, func(t *testing.T) {
			if got := listText(PodRequests(&tc.pod)); got != tc.want {
				t.Errorf("need = %s, want %s", got, tc.want)
			}
		})
	}
}

func TestFindShortages(t *testing.T) {
	for name, tc := range map[string]struct{ need, used, budget, want string }{
		"what is left is enough":           {need: "cpu=1 pods=1", used: "cpu=3", budget: "cpu=4"},
		"one milli too much":               {need: "cpu=1001m", used: "cpu=3", budget: "cpu=4", want: "peering cpu quota usage exceeded - free 1 / requested 1001m"},
		"a resource nobody offered":        {need: "nvidia.com/gpu=1", budget: "cpu=4", want: "nvidia.com/gpu quota limit not found for this peering"},
		"a request of zero needs no offer": {need: "nvidia.com/gpu=0", budget: "cpu=4"},
		"the number of pods, if limited":   {need: "pods=1", used: "pods=2", budget: "pods=2", want: "peering pods quota usage exceeded - free 0 / requested 1"},
		"the number of pods, if not":       {need: "pods=1", used: "pods=2", budget: "cpu=2"},
		"a budget that has shrunk":         {need: "cpu=1", used: "cpu=3", budget: "cpu=2", want: "peering cpu quota usage exceeded - free -1 / requested 1"},
		"what is used is not negative":     {need: "cpu=3", used: "cpu=-2", budget: "cpu=2", want: "peering cpu quota usage exceeded - free 2 / requested 3"},
		"a budget that is negative":        {need: "cpu=1", budget: "cpu=-2", want: "peering cpu quota usage exceeded - free -2 / requested 1"},
		"everything short is named": {
			need: "memory=2Gi cpu=2", budget: "cpu=1 memory=1Gi",
			want: "peering cpu quota usage exceeded - free 1 / requested 2; peering memory quota usage exceeded - free 1Gi / requested 2Gi",
		},
	} {
		t.Run(name, func(t *testing.T) {
			got := ""
			if short := FindShortages(list(tc.need), list(tc.used), list(tc.budget)); short != nil {
				got = short.Error()
			}
			if got != tc.want {
				t.Errorf("fit = %q, want %q", got, tc.want)
			}
		})
	}
}

func TestCheckRequests(t *testing.T) {
	full := limited("a", "cpu=1 memory=1Gi", "cpu=1 memory=1Gi")
	for name, tc := range map[string]struct {
		pod        corev1.PodSpec
		set, equal bool
		want       string
	}{
		"nothing is required":           {pod: corev1.PodSpec{Containers: []corev1.Container{box("a", "")}}},
		"a missing memory request":      {pod: corev1.PodSpec{Containers: []corev1.Container{box("a", "cpu=1")}}, set: true, want: "no memory request"},
		"an init container too":         {pod: corev1.PodSpec{InitContainers: []corev1.Container{box("i", "memory=1")}, Containers: []corev1.Container{full}}, set: true, want: `container "i" has no cpu request`},
		"requests without limits":       {pod: corev1.PodSpec{Containers: []corev1.Container{box("a", "cpu=1 memory=1Gi")}}, set: true, equal: true, want: "requires to be equal"},
		"limits above requests":         {pod: corev1.PodSpec{Containers: []corev1.Container{limited("a", "cpu=1 memory=1Gi", "cpu=2 memory=1Gi")}}, set: true, equal: true, want: "limit of 2 and a request of 1"},
		"limits equal to requests":      {pod: corev1.PodSpec{Containers: []corev1.Container{full}}, set: true, equal: true},
		"limits above, but not checked": {pod: corev1.PodSpec{Containers: []corev1.Container{limited("a", "cpu=1 memory=1Gi", "cpu=2 memory=1Gi")}}, set: true},
	} {
		t.Run(name, func(t *testing.T) {
			err := CheckRequests(&tc.pod, tc.set, tc.equal)
			switch {
			case tc.want == "" && err != nil:
				t.Error(err)
			case tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)):
				t.Errorf("error = %v, want one with %q", err, tc.want)
			}
		})
	}
}

func TestPodRequestsMonotonic(t *testing.T) {
	container := rapid.Custom(func(t *rapid.T) corev1.Container {
		c := box("c", fmt.Sprintf("cpu=%dm memory=%d", rapid.IntRange(0, 4000).Draw(t, "cpu"), rapid.IntRange(0, 1<<32).Draw(t, "memory")))
		if rapid.Bool().Draw(t, "sidecar") {
			c.RestartPolicy = new(corev1.ContainerRestartPolicyAlways)
		}
		return c
	})
	rapid.Check(t, func(t *rapid.T) {
		pod := corev1.PodSpec{
			Containers:     rapid.SliceOfN(container, 0, 4).Draw(t, "containers"),
			InitContainers: rapid.SliceOfN(container, 0, 4).Draw(t, "init"),
		}
		before, text := PodRequests(&pod), listText(PodRequests(&pod))
		if rapid.Bool().Draw(t, "as init container") {
			pod.InitContainers = append(pod.InitContainers, container.Draw(t, "new"))
		} else {
			pod.Containers = append(pod.Containers, container.Draw(t, "new"))
		}
		after := PodRequests(&pod)
		if short := FindShortages(before, nil, after); short != nil {
			t.Fatalf("the larger pod needs less: %v", short)
		}
		if listText(before) != text {
			t.Fatal("counting changed an earlier count: quantities are shared")
		}
	})
}

func TestCheckQuota(t *testing.T) {
	pod := corev1.PodSpec{Containers: []corev1.Container{box("a", "cpu=1")}}
	for name, tc := range map[string]struct {
		budget offv1beta1.QuotaSpec
		used   string
		want   string
	}{
		"it fits":                         {budget: offv1beta1.QuotaSpec{Resources: list("cpu=2"), LimitsEnforcement: offv1beta1.NoLimitsEnforcement}},
		"it does not, with what is there": {budget: offv1beta1.QuotaSpec{Resources: list("cpu=2")}, used: "cpu=1500m", want: "free 500m / requested 1"},
		"a cordoned user gets nothing":    {budget: offv1beta1.QuotaSpec{Resources: list("cpu=2"), Cordoned: new(true)}, want: "user is cordoned"},
		"one that is not any more does":   {budget: offv1beta1.QuotaSpec{Resources: list("cpu=2"), Cordoned: new(false)}},
		"soft wants requests":             {budget: offv1beta1.QuotaSpec{Resources: list("cpu=2"), LimitsEnforcement: offv1beta1.SoftLimitsEnforcement}, want: "no memory request"},
		"hard wants them too":             {budget: offv1beta1.QuotaSpec{Resources: list("cpu=2"), LimitsEnforcement: offv1beta1.HardLimitsEnforcement}, want: "no memory request"},
	} {
		t.Run(name, func(t *testing.T) {
			got := ""
			if err := CheckQuota(&tc.budget, &pod, list(tc.used)); err != nil {
				got = err.Error()
			}
			if tc.want == "" && got != "" || !strings.Contains(got, tc.want) {
				t.Errorf("error = %q, want %q", got, tc.want)
			}
		})
	}
}

func TestSetDefaultRequests(t *testing.T) {
	defaults := list("cpu=10m memory=16Mi")
	for name, tc := range map[string]struct {
		pod  corev1.PodSpec
		want string
	}{
		"nothing is named":          {corev1.PodSpec{Containers: []corev1.Container{box("a", "")}}, "cpu=10m memory=16Mi pods=1"},
		"of each container":         {corev1.PodSpec{Containers: []corev1.Container{box("a", ""), box("b", "cpu=1")}}, "cpu=1010m memory=32Mi pods=1"},
		"a limit is a request":      {corev1.PodSpec{Containers: []corev1.Container{limited("a", "", "cpu=1")}}, "cpu=1 memory=16Mi pods=1"},
		"none is asked for":         {corev1.PodSpec{Containers: []corev1.Container{box("a", "cpu=0 memory=1")}}, "cpu=0 memory=1 pods=1"},
		"init containers, too":      {corev1.PodSpec{InitContainers: []corev1.Container{sidecar("s", "")}, Containers: []corev1.Container{box("a", "")}}, "cpu=20m memory=32Mi pods=1"},
		"the pod names it":          {corev1.PodSpec{Resources: &corev1.ResourceRequirements{Requests: list("cpu=1")}, Containers: []corev1.Container{box("a", "")}}, "cpu=1 memory=16Mi pods=1"},
		"the pod names it by limit": {corev1.PodSpec{Resources: &corev1.ResourceRequirements{Limits: list("cpu=1")}, Containers: []corev1.Container{box("a", "")}}, "cpu=1 memory=16Mi pods=1"},
	} {
		t.Run(name, func(t *testing.T) {
			SetDefaultRequests(&tc.pod, defaults)
			if got := listText(PodRequests(&tc.pod)); got != tc.want {
				t.Errorf("need = %s, want %s", got, tc.want)
			}
		})
	}
}
