// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package network

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/names"
	"liqo.io/liqo/internal/testkit"
)

func TestANodeThatIsNotReadySaysNothingOfPeers(t *testing.T) {
	s := begin(t)
	user := "system:serviceaccount:" + s.liqo + ":" + names.ControllerManager
	const group = networkingv1beta1.GroupName
	testkit.Allow(t, s.c, "", user,
		testkit.Rule("", "nodes", "get", "list", "watch"),
		testkit.Rule(group, "internalnodes", "get", "list", "watch"), testkit.Rule(group, "internalnodes/status", "patch"),
	)
	testkit.Manager(t, s.c.User(t, user), kube.ManagerOptions{Name: "silent"}, SetupSilentNodes)
	meta := metav1.ObjectMeta{Name: testkit.UniqueID()}
	node, member := &corev1.Node{ObjectMeta: meta}, &networkingv1beta1.InternalNode{ObjectMeta: meta}
	s.lend(node)
	s.lend(member)
	is := func(ready corev1.ConditionStatus) {
		t.Helper()
		testkit.UpdateStatus(t, s.c.Client, node, func(n *corev1.Node) {
			n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: ready, Reason: "Test"}}
		})
	}
	says := func() {
		t.Helper()
		testkit.UpdateStatus(t, s.c.Client, member, func(n *networkingv1beta1.InternalNode) {
			n.Status.PodCIDRs = []networkingv1beta1.CIDR{"10.200.1.0/24"}
			n.Status.Peers = []networkingv1beta1.InternalNodePeer{{ClusterID: "rome", Value: networkingv1beta1.ConnectionError}}
		})
	}
	is(corev1.ConditionTrue)
	says()
	is(corev1.ConditionUnknown)
	s.eventually(func() error {
		if err := s.get(member); err != nil || len(member.Status.Peers) > 0 || len(member.Status.PodCIDRs) != 1 {
			return fmt.Errorf("it says %+v (%v)", member.Status, err)
		}
		return nil
	})
	// A fabric that still runs is heard: it is taken back once.
	says()
	is(corev1.ConditionFalse)
	is(corev1.ConditionTrue)
	if err := s.get(member); err != nil || len(member.Status.Peers) != 1 {
		t.Errorf("it says %+v (%v)", member.Status, err)
	}
}
