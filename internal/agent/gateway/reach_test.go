// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
	"liqo.io/liqo/internal/agent"
	"liqo.io/liqo/internal/network/plan"
)

func TestAConnectionIsTheWholeWay(t *testing.T) {
	latency := networkingv1beta1.ConnectionLatency{Value: "7ms"}
	many := make([]report, 12)
	var first []string
	for i := range many {
		many[i] = report{fmt.Sprintf("n%02d", i), broken}
		if i < 10 {
			first = append(first, many[i].node)
		}
	}
	type status = networkingv1beta1.ConnectionStatus
	for name, test := range map[string]struct {
		tunnel networkingv1beta1.ConnectionStatusValue
		nodes  []report
		want   status
	}{
		"nobody tells":                  {connected, nil, status{Value: connected}},
		"all reach":                     {connected, []report{{"a", connected}, {"b", connected}}, status{Value: connected}},
		"one does not":                  {connected, []report{{"a", connected}, {"b", broken}}, status{Value: broken, Reach: "Some", FailedNodes: []string{"b"}}},
		"none does":                     {connected, []report{{"a", broken}, {"b", broken}}, status{Value: broken, Reach: "None", FailedNodes: []string{"a", "b"}}},
		"many do not":                   {connected, many, status{Value: broken, Reach: "None", FailedNodes: first}},
		"the tunnel is down":            {broken, []report{{"a", broken}}, status{Value: broken}},
		"the tunnel is not up yet":      {connecting, []report{{"a", broken}}, status{Value: connecting}},
		"the tunnel is down, they know": {broken, []report{{"a", connected}}, status{Value: broken}},
	} {
		test.want.Latency = latency
		got := withNodes(status{Value: test.tunnel, Latency: latency}, test.nodes)
		if diff := cmp.Diff(test.want, got); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
		if diff := cmp.Diff(status{Value: test.tunnel, Latency: latency}, tunnelOf(got)); diff != "" {
			t.Errorf("%s, and the tunnel of it: %s", name, diff)
		}
		if diff := cmp.Diff(got, withNodes(tunnelOf(got), test.nodes)); diff != "" {
			t.Errorf("%s, once more: %s", name, diff)
		}
	}
}

func TestWhichNodesSaySomething(t *testing.T) {
	node := func(name, peer string, value networkingv1beta1.ConnectionStatusValue) *networkingv1beta1.InternalNode {
		n := &networkingv1beta1.InternalNode{ObjectMeta: metav1.ObjectMeta{Name: name}}
		n.Status.Peers = []networkingv1beta1.InternalNodePeer{{ClusterID: "else", Value: broken}, {ClusterID: peer, Value: value}}
		return n
	}
	going := node("going", "rome", broken)
	going.DeletionTimestamp = new(metav1.Now())
	seen := &agent.Seen{Objects: map[plan.Object]client.Object{{Kind: "Configuration"}: &networkingv1beta1.Configuration{}}}
	for _, n := range []*networkingv1beta1.InternalNode{node("b", "rome", broken), node("a", "rome", connected), node("c", "milan", broken), going} {
		seen.Objects[plan.Object{Kind: "InternalNode", Name: n.Name}] = n
	}
	want := []report{{"a", connected}, {"b", broken}}
	if diff := cmp.Diff(want, reports(seen, "rome"), cmp.AllowUnexported(report{})); diff != "" {
		t.Error(diff)
	}
	g := &gateway{options: Options{RemoteClusterID: "rome"}}
	for _, test := range []struct {
		old, now *networkingv1beta1.InternalNode
		want     bool
	}{
		{node("a", "rome", connected), node("a", "rome", broken), true},
		{node("a", "rome", connected), node("a", "rome", connected), false},
		{node("a", "milan", connected), node("a", "milan", broken), false},
		{node("a", "milan", connected), node("a", "rome", broken), true},
	} {
		if got := g.matters(test.old, test.now); got != test.want {
			t.Errorf("from %v to %v matters: %t", test.old.Status.Peers, test.now.Status.Peers, got)
		}
	}
}
