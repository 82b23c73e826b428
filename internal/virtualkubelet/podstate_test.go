// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package virtualkubelet

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"liqo.io/liqo/internal/multicluster"
)

func TestPodStatesDeletedPod(t *testing.T) {
	k := &podKind{states: newPodStates(time.Now)}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "web", Name: "one", UID: "first"}}
	k.states.withState(pod, func(m *podState) { m.end, m.starting = &corev1.PodStatus{}, time.Now() })
	gone := &podItem{Item: &multicluster.Item{Pair: multicluster.Pair{Local: "web", Remote: "twin"}, Name: "one"}}
	if err := k.reconcilePod(t.Context(), gone); err != nil {
		t.Fatal(err)
	}
	if len(k.states.pods) != 0 {
		t.Errorf("remembered are %v", k.states.pods)
	}
}

func TestPodStatesSameName(t *testing.T) {
	m := newPodStates(time.Now)
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "web", Name: "one", UID: "first"}}
	m.withState(pod, func(known *podState) { known.end = &corev1.PodStatus{} })
	pod.UID = "second"
	m.withState(pod, func(known *podState) {
		if known.uid != "second" || known.end != nil {
			t.Errorf("known is %+v", known)
		}
	})
	if len(m.pods) != 1 {
		t.Errorf("remembered are %v", m.pods)
	}
}
