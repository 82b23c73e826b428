// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/event"
)

func TestNamespacePredicate(t *testing.T) {
	before := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "n", Labels: map[string]string{"a": "b"}}}
	for name, tc := range map[string]struct {
		change func(*corev1.Namespace)
		want   bool
	}{
		"nothing":                 {func(*corev1.Namespace) {}, false},
		"an annotation":           {func(n *corev1.Namespace) { n.Annotations = map[string]string{"a": "b"} }, false},
		"how far a deletion is":   {func(n *corev1.Namespace) { n.Status.Phase = corev1.NamespaceTerminating }, false},
		"a label":                 {func(n *corev1.Namespace) { n.Labels["a"] = "c" }, true},
		"a label that is gone":    {func(n *corev1.Namespace) { n.Labels = nil }, true},
		"the beginning of an end": {func(n *corev1.Namespace) { n.DeletionTimestamp = new(metav1.Now()) }, true},
	} {
		after := before.DeepCopy()
		tc.change(after)
		if got := NamespaceChanged.Update(event.UpdateEvent{ObjectOld: before, ObjectNew: after}); got != tc.want {
			t.Errorf("%s: wakes = %t, want %t", name, got, tc.want)
		}
	}
	if !NamespaceChanged.Create(event.CreateEvent{Object: before}) || !NamespaceChanged.Delete(event.DeleteEvent{Object: before}) {
		t.Error("a namespace that comes or goes does not wake")
	}
}
