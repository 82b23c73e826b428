// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
	"liqo.io/liqo/internal/agent"
	"liqo.io/liqo/internal/network/plan"
)

func TestConnectionWholePath(t *testing.T) {
	latency := networkingv1beta1.ConnectionLatency{Value: "7ms"}
	many := make([]nodeReport, 12)
	var first []string
	for i := range many {
		many[i] = nodeReport{fmt.Sprintf("n%02d", i), broken, 0}
		if i < 10 {
			first = append(first, many[i].node)
		}
	}
	type status = networkingv1beta1.ConnectionStatus
	for name, test := range map[string]struct {
		tunnel networkingv1beta1.ConnectionStatusValue
		nodes  []nodeReport
		want   status
	}{
		"nobody tells":                  {connected, nil, status{Value: connected}},
		"all reach":                     {connected, []nodeReport{{"a", connected, 0}, {"b", connected, 0}}, status{Value: connected}},
		"one does not":                  {connected, []nodeReport{{"a", connected, 0}, {"b", broken, 0}}, status{Value: broken, Reach: "Some", FailedNodes: []string{"b"}}},
		"none does":                     {connected, []nodeReport{{"a", broken, 0}, {"b", broken, 0}}, status{Value: broken, Reach: "None", FailedNodes: []string{"a", "b"}}},
		"many do not":                   {connected, many, status{Value: broken, Reach: "None", FailedNodes: first}},
		"the tunnel is down":            {broken, []nodeReport{{"a", broken, 0}}, status{Value: broken}},
		"the tunnel is not up yet":      {connecting, []nodeReport{{"a", broken, 0}}, status{Value: connecting}},
		"the tunnel is down, they know": {broken, []nodeReport{{"a", connected, 0}}, status{Value: broken}},
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

// A tunnel comes up at 10 s. What a node said while it was down counts again at 14 s.
func TestConnectionMessageDown(t *testing.T) {
	a, b, again := nodeReport{"a", broken, 5}, nodeReport{"b", broken, 5}, nodeReport{"b", broken, 11}
	zero := time.Now()
	var c recoveryDelay
	for i, test := range []struct {
		at          float64
		up          bool
		nodes, want []nodeReport
	}{
		{8, false, []nodeReport{a}, []nodeReport{a}},
		{9, false, []nodeReport{a, b}, []nodeReport{a, b}},
		{10, true, []nodeReport{a, b}, nil},
		{11, true, []nodeReport{{"a", connected, 11}, again}, []nodeReport{{"a", connected, 11}, again}},
		{13.9, true, []nodeReport{a, again}, []nodeReport{again}},
		{14, true, []nodeReport{a, again}, []nodeReport{a, again}},
		{20, true, []nodeReport{a}, []nodeReport{a}},
		{21, false, nil, nil},
		{22, true, []nodeReport{a}, []nodeReport{a}},
	} {
		now := zero.Add(time.Duration(test.at * float64(time.Second)))
		got := c.delayReports(test.up, test.nodes, now, 4*time.Second)
		if diff := cmp.Diff(test.want, got, cmp.AllowUnexported(nodeReport{}), cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("step %d: %s", i, diff)
		}
	}
}

// A CRD of an older version keeps neither reach nor failedNodes.
func TestConnectionWrittenOnce(t *testing.T) {
	h := newTimedHealth()
	h.ask(0)
	h.padded(0, 0.01)
	nodes := []nodeReport{{"a", broken, 0}, {"b", connected, 0}}
	var w publishedStatus
	stored, writes := networkingv1beta1.ConnectionStatus{Value: connected}, 0
	for i := range 20 {
		now := h.at(0.1 + float64(i)/10)
		was := w.lastStatus(stored)
		status := withNodes(nextStatus(tunnelOf(was), h.PathHealth, now, time.Minute), nodes)
		if apiequality.Semantic.DeepEqual(status, was) {
			continue
		}
		writes++
		kept := status
		kept.Reach, kept.FailedNodes, kept.Latency.Timestamp = "", nil, kept.Latency.Timestamp.Rfc3339Copy()
		w, stored = publishedStatus{all: status, kept: kept}, kept
	}
	if writes != 1 {
		t.Errorf("it is written %d times", writes)
	}
	if got := w.lastStatus(networkingv1beta1.ConnectionStatus{Value: connecting}).Value; got != connecting {
		t.Errorf("what others wrote is %s", got)
	}
}

func TestNodeReports(t *testing.T) {
	node := func(name, peer string, value networkingv1beta1.ConnectionStatusValue) *networkingv1beta1.InternalNode {
		n := &networkingv1beta1.InternalNode{ObjectMeta: metav1.ObjectMeta{Name: name}}
		n.Status.Peers = []networkingv1beta1.InternalNodePeer{{ClusterID: "else", Value: broken}, {ClusterID: peer, Value: value, Since: metav1.Unix(7, 0)}}
		return n
	}
	going := node("going", "rome", broken)
	going.DeletionTimestamp = new(metav1.Now())
	snapshot := &agent.Snapshot{Objects: map[plan.Object]client.Object{{Kind: "Configuration"}: &networkingv1beta1.Configuration{}}}
	for _, n := range []*networkingv1beta1.InternalNode{node("b", "rome", broken), node("a", "rome", connected), node("c", "milan", broken), going} {
		snapshot.Objects[plan.Object{Kind: "InternalNode", Name: n.Name}] = n
	}
	want := []nodeReport{{"a", connected, 7}, {"b", broken, 7}}
	if diff := cmp.Diff(want, nodeReports(snapshot, "rome"), cmp.AllowUnexported(nodeReport{})); diff != "" {
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
		if got := g.isRelevant(test.old, test.now); got != test.want {
			t.Errorf("from %v to %v matters: %t", test.old.Status.Peers, test.now.Status.Peers, got)
		}
	}
}

func TestReportedEndpointMattersToItsGateway(t *testing.T) {
	old := &networkingv1beta1.GatewayClient{ObjectMeta: metav1.ObjectMeta{Namespace: "tenant", Name: "rome"}}
	now := old.DeepCopy()
	now.Status.Endpoint = &networkingv1beta1.EndpointStatus{Addresses: []string{"192.0.2.1"}, Port: 51820}
	for name, test := range map[string]struct {
		options Options
		want    bool
	}{
		"own":     {Options{Namespace: "tenant", Name: "rome"}, true},
		"another": {Options{Namespace: "tenant", Name: "milan"}, false},
		"server":  {Options{Namespace: "tenant", Name: "rome", Server: true}, false},
	} {
		if got := (&gateway{options: test.options}).isRelevant(old, now); got != test.want {
			t.Errorf("%s: the endpoint matters: %t, want %t", name, got, test.want)
		}
	}
}
