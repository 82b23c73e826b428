// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"liqo.io/liqo/internal/names"
	"liqo.io/liqo/test/figures"
)

func TestFloorPods(t *testing.T) {
	local := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p", Namespace: floorNamespace, UID: "1", Labels: map[string]string{"app": name}}}
	local.Spec = deployment(1).Spec.Template.Spec
	local.Spec.NodeName, local.Spec.SchedulerName, local.Spec.ServiceAccountName, local.Spec.Priority = floorNode, "x", "default", new(int32(0))
	local.Spec.Volumes = []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{
		{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{}}, {DownwardAPI: &corev1.DownwardAPIProjection{}},
	}}}}}
	before := local.DeepCopy()

	shadow := floorShadow(local)
	shadow.UID = "2"
	pod := floorPod(shadow)

	want := deployment(1).Spec.Template.Spec
	want.AutomountServiceAccountToken = new(false)
	want.Volumes = []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{
		Sources: []corev1.VolumeProjection{{DownwardAPI: &corev1.DownwardAPIProjection{}}},
	}}}}
	if diff := cmp.Diff(want, pod.Spec); diff != "" {
		t.Error(diff)
	}
	if pod.Namespace != floorTwin || pod.Labels["app"] != name || pod.Labels[names.ManagedBy] != madeFrom || pod.Annotations[names.OffloadingUID] != "1" {
		t.Errorf("the pod is %+v", pod.ObjectMeta)
	}
	if owner := metav1.GetControllerOf(pod); owner == nil || owner.Kind != "ShadowPod" || owner.UID != "2" {
		t.Errorf("the owner is %+v", owner)
	}
	if shadow.Labels[names.ManagedBy] != "" {
		t.Error("the ShadowPod has the label of its pod")
	}
	if diff := cmp.Diff(before, local); diff != "" {
		t.Errorf("the local pod changed: %s", diff)
	}
}

func TestFloorReady(t *testing.T) {
	pod := func(uid types.UID, ready corev1.ConditionStatus) *corev1.Pod {
		return &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: "p", UID: uid, ResourceVersion: "7"},
			Status:     corev1.PodStatus{Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: ready}}},
		}
	}
	f := &floor{local: map[string]*corev1.Pod{}, told: map[types.UID]bool{}}
	if f.news(pod("remote", corev1.ConditionTrue)) != nil {
		t.Error("there is news of a pod that was not offloaded")
	}
	if local := pod("local", corev1.ConditionFalse); !f.begins(local) || f.begins(local) {
		t.Error("a pod does not begin once")
	}
	if f.news(pod("remote", corev1.ConditionFalse)) != nil {
		t.Error("there is news of a pod that is not ready")
	}
	got := f.news(pod("remote", corev1.ConditionTrue))
	if got == nil || got.UID != "local" || got.ResourceVersion != "" || !isReady(got) {
		t.Errorf("the news are %+v", got)
	}
	if f.news(pod("remote", corev1.ConditionTrue)) != nil {
		t.Error("there is news of what was told")
	}
}

func TestFloorVerdict(t *testing.T) {
	r := &result{Floor: true, Config: figures.Spread{P50: 0.005, P95: 0.02}, Bursts: []*burst{{Pods: 100, Seconds: 1, CPU: 1}, {Pods: 100, Offloaded: true, Seconds: 2, CPU: 4}}}
	got := map[string]float64{}
	for _, row := range r.verdict() {
		got[row.What] = row.Value
	}
	want := map[string]float64{
		"a ConfigMap in the provider, median": 5, "a ConfigMap in the provider, 95 %": 20,
		"100 pods: time until ready": 2, "100 pods: CPU of both clusters": 4,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}
