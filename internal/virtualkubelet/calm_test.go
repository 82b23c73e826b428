// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package virtualkubelet

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"liqo.io/liqo/internal/kube"
)

func TestOnlyNewsThatTheNextWillReplaceWait(t *testing.T) {
	condition := func(kind corev1.PodConditionType, status corev1.ConditionStatus, reason string) corev1.PodCondition {
		return corev1.PodCondition{Type: kind, Status: status, Reason: reason}
	}
	waiting := func(reason string) []corev1.ContainerStatus {
		return []corev1.ContainerStatus{{Name: "app", State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason}}}}
	}
	for name, c := range map[string]struct {
		change func(local, remote *corev1.Pod)
		tell   bool
	}{
		"placed":               {func(_, _ *corev1.Pod) {}, false},
		"being made":           {func(_, r *corev1.Pod) { r.Status.ContainerStatuses = waiting("ContainerCreating") }, false},
		"its init comes first": {func(_, r *corev1.Pod) { r.Status.ContainerStatuses = waiting("PodInitializing") }, false},
		"no image":             {func(_, r *corev1.Pod) { r.Status.ContainerStatuses = waiting("ErrImagePull") }, true},
		"no configuration":     {func(_, r *corev1.Pod) { r.Status.ContainerStatuses = waiting("CreateContainerConfigError") }, true},
		"no place": {func(_, r *corev1.Pod) {
			r.Status.Conditions = []corev1.PodCondition{condition(corev1.PodScheduled, corev1.ConditionFalse, corev1.PodReasonUnschedulable)}
		}, true},
		"its init runs": {func(_, r *corev1.Pod) {
			r.Status.InitContainerStatuses = []corev1.ContainerStatus{{State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}}
		}, true},
		"running":                 {func(_, r *corev1.Pod) { r.Status.Phase = corev1.PodRunning }, true},
		"ended":                   {func(_, r *corev1.Pod) { r.Status.Phase = corev1.PodFailed }, true},
		"going there":             {func(_, r *corev1.Pod) { r.DeletionTimestamp = new(metav1.Now()) }, true},
		"going here":              {func(l, _ *corev1.Pod) { l.DeletionTimestamp = new(metav1.Now()) }, true},
		"ran before":              {func(l, _ *corev1.Pod) { l.Status.Phase = corev1.PodRunning }, true},
		"another reason is shown": {func(l, _ *corev1.Pod) { l.Status.Reason = "OffloadingBackOff" }, true},
		"a refusal is shown": {func(l, _ *corev1.Pod) {
			l.Status.Conditions = append(l.Status.Conditions, condition(corev1.ContainersReady, corev1.ConditionFalse, "Refused"))
		}, true},
	} {
		t.Run(name, func(t *testing.T) {
			local := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "local"}, Status: corev1.PodStatus{
				Phase: corev1.PodPending, Conditions: []corev1.PodCondition{condition(corev1.PodScheduled, corev1.ConditionTrue, "")},
			}}
			remote := &corev1.Pod{Status: *local.Status.DeepCopy()}
			c.change(local, remote)
			now := time.Unix(0, 0)
			k := newMemory(func() time.Time { return now })
			err := k.debounceStart(local, remote)
			if tell := err == nil; tell != c.tell {
				t.Fatalf("%v, want to tell: %v", err, c.tell)
			}
			if after := kube.Judge(err).After; !c.tell && after != calmTime {
				t.Errorf("looks again after %v", after)
			}
			now = now.Add(calmTime)
			if err := k.debounceStart(local, remote); err != nil {
				t.Errorf("not told after %v: %v", calmTime, err)
			}
		})
	}
}

func TestNothingIsToldOfAPodThatWasOnlyMade(t *testing.T) {
	local, remote := &corev1.Pod{}, &corev1.Pod{Status: corev1.PodStatus{Phase: corev1.PodPending}}
	k := newMemory(time.Now)
	if verdict := kube.Judge(k.debounceStart(local, remote)); verdict.Failed() || verdict.Invalid() || verdict.After != 0 {
		t.Errorf("%+v", verdict)
	}
}
