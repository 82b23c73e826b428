// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

func waits(reason string, restarts int32) corev1.PodStatus {
	return corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{{
		RestartCount: restarts, State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason}},
	}}}
}

func TestStuckPods(t *testing.T) {
	unschedulable := corev1.PodStatus{Conditions: []corev1.PodCondition{
		{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable, Message: "0/1 nodes are available"},
	}}
	running := corev1.PodStatus{Phase: corev1.PodRunning}
	type sight struct {
		after  time.Duration
		status corev1.PodStatus
	}
	for rule, tc := range map[string]struct {
		sights []sight
		want   string // "" if it is not given up
	}{
		"it crashed often":               {[]sight{{0, waits("CrashLoopBackOff", 3)}}, "CrashLoopBackOff"},
		"it crashed twice":               {[]sight{{0, waits("CrashLoopBackOff", 2)}, {time.Hour, waits("CrashLoopBackOff", 2)}}, ""},
		"its image does not come":        {[]sight{{0, waits("ErrImagePull", 0)}, {time.Minute, waits("ImagePullBackOff", 0)}}, "ImagePullBackOff"},
		"its image may come":             {[]sight{{0, waits("ErrImagePull", 0)}, {59 * time.Second, waits("ImagePullBackOff", 0)}}, ""},
		"its image is not loaded":        {[]sight{{0, waits("ErrImageNeverPull", 0)}, {time.Minute, waits("ErrImageNeverPull", 0)}}, "ErrImageNeverPull"},
		"its image came between":         {[]sight{{0, waits("ErrImagePull", 0)}, {59 * time.Second, running}, {time.Minute, waits("ErrImagePull", 0)}}, ""},
		"no node has room":               {[]sight{{0, unschedulable}, {3 * time.Minute, unschedulable}}, "Unschedulable: 0/1 nodes are available"},
		"a node may have room":           {[]sight{{0, unschedulable}, {2 * time.Minute, unschedulable}}, ""},
		"a node was found, but no image": {[]sight{{0, unschedulable}, {2 * time.Minute, waits("ErrImagePull", 0)}}, ""},
		"it starts slowly":               {[]sight{{0, waits("ContainerCreating", 0)}, {time.Hour, waits("ContainerCreating", 0)}}, ""},
		"nothing is known yet":           {[]sight{{0, corev1.PodStatus{}}, {time.Hour, corev1.PodStatus{}}}, ""},
	} {
		t.Run(rule, func(t *testing.T) {
			v, begin, got := &stallDetector{}, time.Now(), ""
			for _, s := range tc.sights {
				pod := corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "new", Name: "web"}, Status: s.status}
				if stuck := v.observePods([]corev1.Pod{pod}, begin.Add(s.after)); stuck != nil {
					got = stuck.why
				}
			}
			if got != tc.want {
				t.Errorf("%q, want %q", got, tc.want)
			}
		})
	}
}

func TestTerminatingPodsNotStuck(t *testing.T) {
	now := metav1.Now()
	v := &stallDetector{old: map[types.UID]bool{"old": true}}
	pods := []corev1.Pod{
		{ObjectMeta: metav1.ObjectMeta{UID: "old"}, Status: waits("CrashLoopBackOff", 30)},
		{ObjectMeta: metav1.ObjectMeta{UID: "ending", DeletionTimestamp: &now}, Status: waits("CrashLoopBackOff", 30)},
	}
	if stuck := v.observePods(pods, now.Time); stuck != nil {
		t.Error(stuck)
	}
}
