// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"errors"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"liqo.io/liqo/internal/kube"
)

func TestPodNotStarting(t *testing.T) {
	container := func(restarts int32, reason, message string, ended *corev1.ContainerStateTerminated) corev1.PodStatus {
		return corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{{
			RestartCount: restarts, State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: message}},
			LastTerminationState: corev1.ContainerState{Terminated: ended},
		}}}
	}
	unscheduled := corev1.PodStatus{Conditions: []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Message: "0/3 nodes are available"}}}
	crashed := &corev1.ContainerStateTerminated{ExitCode: 1, Message: "no such device"}
	for want, tc := range map[string]struct {
		pods []corev1.PodStatus
		ends bool
	}{
		"no pod of gw-milan is ready":                                                  {nil, false},
		"pod gw-milan-0 does not start: not scheduled: 0/3 nodes are available":        {[]corev1.PodStatus{unscheduled}, false},
		"pod gw-milan-0 does not start: ImagePullBackOff: no such image":               {[]corev1.PodStatus{container(0, "ImagePullBackOff", "no such image", nil)}, false},
		"pod gw-milan-0 does not start: InvalidImageName: no name":                     {[]corev1.PodStatus{container(0, "InvalidImageName", "no name", nil)}, true},
		"pod gw-milan-0 does not start: CrashLoopBackOff, exit code 1: has no device":  {[]corev1.PodStatus{container(1, "CrashLoopBackOff", "back-off", &corev1.ContainerStateTerminated{ExitCode: 1, Message: "has no device"})}, false},
		"pod gw-milan-0 does not start: ContainerCreating":                             {[]corev1.PodStatus{container(3, "ContainerCreating", "", crashed)}, false},
		"pod gw-milan-0 does not start: CrashLoopBackOff, exit code 1: no such device": {[]corev1.PodStatus{container(3, "CrashLoopBackOff", "back-off", crashed)}, true},
	} {
		var pods []corev1.Pod
		for _, status := range tc.pods {
			pods = append(pods, corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "gw-milan-0"}, Status: status})
		}
		err := NotReady("gw-milan", pods)
		if _, waits := errors.AsType[kube.Pending](err); err.Error() != want || waits == tc.ends {
			t.Errorf("got %q, waits %v; want %q", err, waits, want)
		}
	}
}
