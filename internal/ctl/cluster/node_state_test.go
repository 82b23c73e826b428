// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"errors"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	offv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/kube"
)

func TestNodeState(t *testing.T) {
	key := client.ObjectKey{Namespace: "liqo-tenant-milan", Name: "milan"}
	created := func(create *bool, conditions ...offv1beta1.VirtualNodeCondition) *offv1beta1.VirtualNode {
		return &offv1beta1.VirtualNode{Spec: offv1beta1.VirtualNodeSpec{CreateNode: create}, Status: offv1beta1.VirtualNodeStatus{Conditions: conditions}}
	}
	condition := func(of offv1beta1.VirtualNodeConditionType, is offv1beta1.VirtualNodeConditionStatusType, message string) offv1beta1.VirtualNodeCondition {
		return offv1beta1.VirtualNodeCondition{Type: of, Status: is, Message: message}
	}
	runs := condition(offv1beta1.VirtualKubeletConditionType, offv1beta1.RunningConditionStatusType, "")
	none := condition(offv1beta1.NodeConditionType, offv1beta1.NoneConditionStatusType, "")
	creating := condition(offv1beta1.NodeConditionType, offv1beta1.CreatingConditionStatusType, "")
	ending := created(nil)
	ending.DeletionTimestamp = new(metav1.Now())
	node := func(is corev1.ConditionStatus, message string) *corev1.Node {
		return &corev1.Node{Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: is, Message: message}}}}
	}
	pod := func(reason string, restarts int32, last *corev1.ContainerStateTerminated) corev1.Pod {
		p := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "vk-milan-x"}}
		p.Status.ContainerStatuses = []corev1.ContainerStatus{{
			RestartCount: restarts, State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason}},
			LastTerminationState: corev1.ContainerState{Terminated: last},
		}}
		return p
	}
	for name, tc := range map[string]struct {
		state nodeState
		want  string // "" if nothing is waited for
		final bool   // no time mends it
	}{
		"no_virtual_node":       {state: nodeState{}, want: "there is no VirtualNode liqo-tenant-milan/milan yet"},
		"being_deleted":         {state: nodeState{virtualNode: ending, node: node(corev1.ConditionTrue, "")}, want: "the VirtualNode liqo-tenant-milan/milan is being deleted"},
		"no_node":               {state: nodeState{virtualNode: created(nil)}, want: "there is no node milan yet: no pod of vk-milan is ready"},
		"node_to_come":          {state: nodeState{virtualNode: created(nil, runs, creating)}, want: "there is no node milan yet: no pod of vk-milan is ready"},
		"invalid":               {state: nodeState{virtualNode: created(nil, condition(offv1beta1.VirtualKubeletConditionType, offv1beta1.CreatingConditionStatusType, "the VkOptionsTemplate does not exist"))}, want: "there is no node milan yet: the VkOptionsTemplate does not exist"},
		"image":                 {state: nodeState{virtualNode: created(nil), kubelets: []corev1.Pod{pod("ImagePullBackOff", 0, nil)}}, want: "there is no node milan yet: pod vk-milan-x does not start: ImagePullBackOff"},
		"crashes":               {state: nodeState{virtualNode: created(nil), kubelets: []corev1.Pod{pod("CrashLoopBackOff", 3, &corev1.ContainerStateTerminated{ExitCode: 1, Message: "no flag"})}}, want: "pod vk-milan-x does not start: CrashLoopBackOff, exit code 1: no flag", final: true},
		"not_ready":             {state: nodeState{virtualNode: created(nil), node: node(corev1.ConditionFalse, "the network to milan is down")}, want: "the node milan is not ready: the network to milan is down"},
		"without_conditions":    {state: nodeState{virtualNode: created(nil), node: &corev1.Node{}}, want: "the node milan is not ready"},
		"ready":                 {state: nodeState{virtualNode: created(nil, runs, creating), node: node(corev1.ConditionTrue, "")}},
		"hidden_by_itself":      {state: nodeState{virtualNode: created(new(false))}},
		"hidden_by_its_options": {state: nodeState{virtualNode: created(nil, runs, none)}},
		"shown_anew":            {state: nodeState{virtualNode: created(new(true), runs, none)}, want: "there is no node milan yet: no pod of vk-milan is ready"},
	} {
		t.Run(name, func(t *testing.T) {
			got := ""
			err := tc.state.checkReady(key)
			if err != nil {
				got = err.Error()
			}
			_, waits := errors.AsType[kube.Pending](err)
			if got != tc.want || waits != (tc.want != "" && !tc.final) {
				t.Errorf("got %q, waits %t; want %q, final %t", got, waits, tc.want, tc.final)
			}
		})
	}
}
