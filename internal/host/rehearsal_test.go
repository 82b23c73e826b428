// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package host

import (
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"liqo.io/liqo/internal/names"
)

func TestPodsOfATemplateLookAlikeToAdmission(t *testing.T) {
	of := func(change func(*corev1.Pod)) shape {
		sp := asked("twin", "web-0", "grey", "user", "1")
		pod := &corev1.Pod{ObjectMeta: *sp.ObjectMeta.DeepCopy(), Spec: sp.Spec.Pod}
		if pod.Annotations == nil {
			pod.Annotations = map[string]string{}
		}
		change(pod)
		return shapeOf(pod)
	}
	first := of(func(*corev1.Pod) {})
	for name, c := range map[string]struct {
		change func(*corev1.Pod)
		same   bool
	}{
		"another name":      {func(p *corev1.Pod) { p.Name = "web-1" }, true},
		"an index":          {func(p *corev1.Pod) { p.Labels[appsv1.PodIndexLabel] = "1" }, true},
		"an origin":         {func(p *corev1.Pod) { p.Annotations[names.OffloadingUID] = "uid" }, true},
		"a label":           {func(p *corev1.Pod) { p.Labels["inject"] = "true" }, false},
		"an annotation":     {func(p *corev1.Pod) { p.Annotations["example.com/inject"] = "true" }, false},
		"another namespace": {func(p *corev1.Pod) { p.Namespace = "other" }, false},
		"another request":   {func(p *corev1.Pod) { p.Spec.Containers[0].Resources.Requests = cpus("2") }, false},
		"a limit":           {func(p *corev1.Pod) { p.Spec.Containers[0].Resources.Limits = cpus("2") }, false},
		"another container": {func(p *corev1.Pod) { p.Spec.Containers = append(p.Spec.Containers, p.Spec.Containers[0]) }, false},
		"one at the start": {func(p *corev1.Pod) {
			p.Spec.InitContainers, p.Spec.Containers = p.Spec.Containers, p.Spec.InitContainers
		}, false},
		"a request as a whole": {func(p *corev1.Pod) { p.Spec.Resources = &corev1.ResourceRequirements{Requests: cpus("1")} }, false},
	} {
		if got := of(c.change) == first; got != c.same {
			t.Errorf("%s: looks the same is %t", name, got)
		}
	}
}

func TestWhatBecameOfAPodCountsForAMinute(t *testing.T) {
	now := time.Now()
	var s shapes
	a, b := shape{"twin", "a"}, shape{"other", "b"}
	spec := &corev1.PodSpec{}
	is := func(of shape, want bool, when string) {
		t.Helper()
		if got := s.Get(of, now) != nil; got != want {
			t.Errorf("%s, known: %t", when, got)
		}
	}
	is(a, false, "before the first")
	s.Learn(a, spec, now)
	s.Learn(b, spec, now)
	s.Forget("other")
	is(a, true, "after the first")
	is(b, false, "after its LimitRange changed")
	now = now.Add(outcomeAge + 1)
	is(a, false, "a minute later")
	s.Learn(b, spec, now)
	if len(s.known) != 1 {
		t.Errorf("kept are %v", s.known)
	}
}
