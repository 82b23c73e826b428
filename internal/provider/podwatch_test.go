// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package provider

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

func TestPodEvents(t *testing.T) {
	for what, tc := range map[string]struct {
		change func(*corev1.Pod)
		want   int
	}{
		"its conditions":         {func(pod *corev1.Pod) { pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady}} }, 0},
		"its address":            {func(pod *corev1.Pod) { pod.Status.PodIP = "10.0.0.1" }, 0},
		"its containers":         {func(pod *corev1.Pod) { pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "web"}} }, 0},
		"its phase":              {func(pod *corev1.Pod) { pod.Status.Phase = corev1.PodRunning }, 1},
		"its deletion":           {func(pod *corev1.Pod) { pod.DeletionTimestamp = new(metav1.Now()) }, 1},
		"its labels":             {func(pod *corev1.Pod) { pod.Labels["app"] = "x" }, 1},
		"its annotations":        {func(pod *corev1.Pod) { pod.Annotations = map[string]string{"a": "b"} }, 1},
		"its owner":              {func(pod *corev1.Pod) { pod.OwnerReferences = []metav1.OwnerReference{{Name: "other"}} }, 1},
		"that it is another one": {func(pod *corev1.Pod) { pod.UID = "2" }, 1},
	} {
		t.Run(what, func(t *testing.T) {
			before := &corev1.Pod{Spec: asked("twin", "web", "grey", "user", "1").Spec.Pod}
			before.Namespace, before.Name, before.UID, before.Labels = "twin", "web", "1", map[string]string{}
			after := before.DeepCopy()
			tc.change(after)
			for _, pod := range []*corev1.Pod{before, after} {
				if _, err := trimPod(pod); err != nil {
					t.Fatal(err)
				}
			}
			queue := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[reconcile.Request]())
			t.Cleanup(queue.ShutDown)
			s := &shadowPods{quotas: newQuotaCache(true, nil)}
			podEvents{&handler.TypedEnqueueRequestForObject[*corev1.Pod]{}, s}.Update(t.Context(), event.TypedUpdateEvent[*corev1.Pod]{ObjectOld: before, ObjectNew: after}, queue)
			if got := queue.Len(); got != tc.want {
				t.Errorf("%d are looked at, want %d", got, tc.want)
			}
		})
	}
}
