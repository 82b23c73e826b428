// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package virtualkubelet

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	offv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
)

func TestComparisonBasis(t *testing.T) {
	make := func() *podItem {
		meta := metav1.ObjectMeta{Generation: 1, Labels: map[string]string{"a": "1", "b": "2"}, Annotations: map[string]string{"c": "3"}}
		return &podItem{generation: 7, local: &corev1.Pod{ObjectMeta: *meta.DeepCopy()}, shadow: &offv1beta1.ShadowPod{ObjectMeta: *meta.DeepCopy()}}
	}
	it := make()
	first, known := it.comparisonBasis(it.shadow)
	if !known {
		t.Fatal("nothing is known of a pod with a generation")
	}
	for name, c := range map[string]struct {
		change func(it *podItem)
		same   bool
	}{
		"nothing":             {func(*podItem) {}, true},
		"statuses":            {func(it *podItem) { it.local.Status.Phase, it.shadow.Status.Phase = "Running", "Running" }, true},
		"versions":            {func(it *podItem) { it.local.ResourceVersion, it.shadow.ResourceVersion = "5", "6" }, true},
		"the pod's spec":      {func(it *podItem) { it.local.Generation++ }, false},
		"a label":             {func(it *podItem) { it.local.Labels["a"] = "2" }, false},
		"labels exchanged":    {func(it *podItem) { it.local.Labels["a"], it.local.Labels["b"] = "2", "1" }, false},
		"an annotation":       {func(it *podItem) { it.local.Annotations["d"] = "" }, false},
		"a label less there":  {func(it *podItem) { delete(it.shadow.Labels, "a") }, false},
		"an annotation there": {func(it *podItem) { it.shadow.Annotations["c"] = "4" }, false},
		"labels here, not there": {func(it *podItem) {
			it.local.Labels, it.local.Annotations = it.local.Annotations, it.local.Labels
		}, false},
		"the spec there":  {func(it *podItem) { it.shadow.Generation++ }, false},
		"the VirtualNode": {func(it *podItem) { it.generation = 8 }, false},
	} {
		it := make()
		c.change(it)
		if got, _ := it.comparisonBasis(it.shadow); (got == first) != c.same {
			t.Errorf("%s changed: the same basis is %v", name, got == first)
		}
	}
}

// An API server before 1.33 counts no generations of pods.
func TestComparisonBasisWithoutGeneration(t *testing.T) {
	k := &podKind{states: newPodStates(time.Now)}
	it := func(image string) *podItem {
		return &podItem{
			local: &corev1.Pod{
				ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "p", UID: "u"},
				Spec:       corev1.PodSpec{NodeSelector: map[string]string{"a": "1", "b": "2"}, Containers: []corev1.Container{{Name: "c", Image: image}}},
			},
			shadow: &offv1beta1.ShadowPod{ObjectMeta: metav1.ObjectMeta{Generation: 2}},
		}
	}
	before, after := it("one"), it("two")
	k.setComparisonBasis(before, before.shadow)
	if again := it("one"); !k.isUpToDate(again, again.shadow) {
		t.Error("it is read and compared at each turn")
	}
	if k.isUpToDate(after, after.shadow) {
		t.Error("the pod has another spec, and its ShadowPod passes for right")
	}
}

// What making a ShadowPod answers is enough to know it again when the cache has it.
func TestShadowPodUpToDateWhenCreated(t *testing.T) {
	k := &podKind{states: newPodStates(time.Now)}
	made := metav1.ObjectMeta{Generation: 1, ResourceVersion: "5", Labels: map[string]string{"a": "1"}, Annotations: map[string]string{"b": "2"}}
	it := &podItem{local: &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "p", UID: "u", Generation: 1}}}
	k.setComparisonBasis(it, &metav1.PartialObjectMetadata{ObjectMeta: *made.DeepCopy()})
	shadow := &offv1beta1.ShadowPod{ObjectMeta: *made.DeepCopy()}
	shadow.ResourceVersion, shadow.Status.Phase = "9", corev1.PodRunning
	if !k.isUpToDate(it, shadow) {
		t.Error("it would be compared again")
	}
	shadow.Generation = 2
	if k.isUpToDate(it, shadow) {
		t.Error("somebody changed it, and it passes for right")
	}
	shadow.Generation, it.local.UID = 1, "another"
	if k.isUpToDate(it, shadow) {
		t.Error("what was made for one pod passes for right for the next of its name")
	}
}

func TestDesiredPatchGeneration(t *testing.T) {
	patches := []*offv1beta1.OffloadingPatch{{}, {AnnotationsNotReflected: []string{"a"}}}
	now := 0
	change := func() { now = 1 }
	k := &podKind{
		generation: func() int64 { defer change(); return int64(now) },
		patch:      func() *offv1beta1.OffloadingPatch { defer change(); return patches[now] },
	}
	if generation, patch := k.desiredPatch(); patch == patches[0] && generation == 1 {
		t.Error("the patch of generation 0 passes for that of generation 1")
	}
}
