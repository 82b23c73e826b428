// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package network

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/event"

	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/names"
	"liqo.io/liqo/internal/testkit"
)

func TestUnreadyNode(t *testing.T) {
	s := newTestEnv(t)
	user := "system:serviceaccount:" + s.liqo + ":" + names.ControllerManager
	const group = networkingv1beta1.GroupName
	testkit.Allow(t, s.c, "", user,
		testkit.Rule("", "nodes", "get", "list", "watch"),
		testkit.Rule(group, "internalnodes", "get", "list", "watch"), testkit.Rule(group, "internalnodes/status", "patch"),
	)
	type pair struct {
		node   *corev1.Node
		member *networkingv1beta1.InternalNode
	}
	is := func(p pair, ready corev1.ConditionStatus) {
		t.Helper()
		testkit.UpdateStatus(t, s.c.Client, p.node, func(n *corev1.Node) {
			n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: ready, Reason: "Test"}}
		})
	}
	says := func(p pair) {
		t.Helper()
		testkit.UpdateStatus(t, s.c.Client, p.member, func(n *networkingv1beta1.InternalNode) {
			n.Status.PodCIDRs = []networkingv1beta1.CIDR{"10.200.1.0/24"}
			n.Status.Peers = []networkingv1beta1.InternalNodePeer{{ClusterID: "rome", Value: networkingv1beta1.ConnectionError}}
		})
	}
	silent := func(p pair) {
		t.Helper()
		s.eventually(func() error {
			if err := s.get(p.member); err != nil || len(p.member.Status.Peers) > 0 || len(p.member.Status.PodCIDRs) != 1 {
				return fmt.Errorf("%s says %+v (%v)", p.member.Name, p.member.Status, err)
			}
			return nil
		})
	}
	var all []pair
	for range 3 { // which are ready before anybody looks
		meta := metav1.ObjectMeta{Name: testkit.UniqueID()}
		p := pair{&corev1.Node{ObjectMeta: meta}, &networkingv1beta1.InternalNode{ObjectMeta: meta}}
		s.createTemporary(p.node)
		s.createTemporary(p.member)
		is(p, corev1.ConditionTrue)
		says(p)
		all = append(all, p)
	}
	first, second, last := all[0], all[1], all[2]
	is(last, corev1.ConditionFalse)
	testkit.Manager(t, s.c.User(t, user), kube.ManagerOptions{Name: "silent"}, SetupUnreadyNodes)
	silent(last) // the others were looked at by now, or are soon
	is(first, corev1.ConditionUnknown)
	silent(first)
	// A fabric that still runs is heard: it is taken back once. What came before the second node was dealt with before it.
	says(first)
	is(first, corev1.ConditionFalse)
	is(second, corev1.ConditionUnknown)
	silent(second)
	if err := s.get(first.member); err != nil || len(first.member.Status.Peers) != 1 {
		t.Errorf("it says %+v (%v)", first.member.Status, err)
	}
}

func TestReadinessChanged(t *testing.T) {
	node := func(conditions ...corev1.NodeCondition) *corev1.Node {
		return &corev1.Node{Status: corev1.NodeStatus{Conditions: conditions}}
	}
	ready := func(is corev1.ConditionStatus) *corev1.Node {
		return node(corev1.NodeCondition{Type: corev1.NodeMemoryPressure, Status: corev1.ConditionTrue}, corev1.NodeCondition{Type: corev1.NodeReady, Status: is})
	}
	for name, test := range map[string]struct {
		was, is *corev1.Node
		want    bool
	}{
		"nothing is new":               {ready(corev1.ConditionTrue), ready(corev1.ConditionTrue), false},
		"it is not heard of any more":  {ready(corev1.ConditionTrue), ready(corev1.ConditionUnknown), true},
		"it says that it is not ready": {ready(corev1.ConditionTrue), ready(corev1.ConditionFalse), true},
		"it never was":                 {node(), ready(corev1.ConditionFalse), false},
		"it was not, in another way":   {ready(corev1.ConditionUnknown), ready(corev1.ConditionFalse), false},
		"it comes back":                {ready(corev1.ConditionUnknown), ready(corev1.ConditionTrue), true},
	} {
		if got := readinessChanged(event.UpdateEvent{ObjectOld: test.was, ObjectNew: test.is}); got != test.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}
