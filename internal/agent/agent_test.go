// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"errors"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	ipamv1alpha1 "liqo.io/liqo/api/ipam/v1alpha1"
	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
	"liqo.io/liqo/internal/testkit"
)

func TestMain(m *testing.M) { testkit.Main(m) }

func TestRelevantChanges(t *testing.T) {
	node, pod, member := &corev1.Node{}, &corev1.Pod{}, &networkingv1beta1.InternalNode{}
	network, configuration := &ipamv1alpha1.Network{}, &networkingv1beta1.Configuration{}
	gatewayClient, server := &networkingv1beta1.GatewayClient{}, &networkingv1beta1.GatewayServer{}
	route, firewall := &networkingv1beta1.RouteConfiguration{}, &networkingv1beta1.FirewallConfiguration{}
	for name, test := range map[string]struct {
		now  client.Object
		edit func(client.Object)
		want bool
	}{
		"a heartbeat": {node, func(o client.Object) {
			o.(*corev1.Node).Status.Conditions = []corev1.NodeCondition{{LastHeartbeatTime: metav1.Now()}}
		}, false},
		"an address of a node": {node, func(o client.Object) {
			o.(*corev1.Node).Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "192.0.2.1"}}
		}, true},
		"the share of a node": {node, func(o client.Object) { o.(*corev1.Node).Spec.PodCIDRs = []string{"10.200.1.0/24"} }, true},
		"a container": {pod, func(o client.Object) {
			o.(*corev1.Pod).Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "c", Ready: true}}
		}, false},
		"an address of a pod": {pod, func(o client.Object) { o.(*corev1.Pod).Status.PodIPs = []corev1.PodIP{{IP: "10.200.1.5"}} }, true},
		"the end of a pod":    {pod, func(o client.Object) { o.(*corev1.Pod).Status.Phase = corev1.PodSucceeded }, true},
		"what others say of routes": {route, func(o client.Object) {
			o.(*networkingv1beta1.RouteConfiguration).Status.Conditions = []networkingv1beta1.HostCondition{{Host: "other"}}
		}, false},
		"what others say of a firewall": {firewall, func(o client.Object) {
			o.(*networkingv1beta1.FirewallConfiguration).Status.Conditions = []networkingv1beta1.HostCondition{{Host: "other"}}
		}, false},
		"other routes":             {route, func(o client.Object) { o.SetGeneration(2) }, true},
		"whom a firewall is for":   {firewall, func(o client.Object) { o.SetLabels(map[string]string{"a": "b"}) }, true},
		"that a firewall is to go": {firewall, func(o client.Object) { o.SetDeletionTimestamp(new(metav1.Now())) }, true},
		"which peers a node reaches": {member, func(o client.Object) {
			o.(*networkingv1beta1.InternalNode).Status.Peers = []networkingv1beta1.InternalNodePeer{{ClusterID: "rome"}}
		}, false},
		"why a node has no address": {member, func(o client.Object) {
			o.(*networkingv1beta1.InternalNode).Status.Conditions = []metav1.Condition{{Type: "Allocated"}}
		}, false},
		"where a node is": {member, func(o client.Object) {
			o.(*networkingv1beta1.InternalNode).Status.NodeIP.Local = new(networkingv1beta1.IP("192.0.2.1"))
		}, true},
		"a node in front of peers": {member, func(o client.Object) { o.SetGeneration(2) }, true},
		"how a network is": {network, func(o client.Object) {
			o.(*ipamv1alpha1.Network).Status.Conditions = []metav1.Condition{{Type: "Allocated"}}
		}, false},
		"a prefix":           {network, func(o client.Object) { o.(*ipamv1alpha1.Network).Status.CIDR = "10.71.0.0/16" }, true},
		"whose a network is": {network, func(o client.Object) { o.SetLabels(map[string]string{"a": "b"}) }, true},
		"the networks that a peer reports": {configuration, func(o client.Object) {
			status := &o.(*networkingv1beta1.Configuration).Status
			status.ReportedRemote = &networkingv1beta1.ClusterConfig{CIDR: networkingv1beta1.ClusterConfigCIDR{Pod: []networkingv1beta1.CIDR{"10.71.0.0/16"}}}
			status.Conditions = []metav1.Condition{{Type: "Applied", Message: "the peer reports other networks"}}
		}, false},
		"the networks of a peer": {configuration, func(o client.Object) { o.SetGeneration(2) }, true},
		"local networks of a peer": {configuration, func(o client.Object) {
			o.(*networkingv1beta1.Configuration).Status.Remote = &networkingv1beta1.ClusterConfig{CIDR: networkingv1beta1.ClusterConfigCIDR{Pod: []networkingv1beta1.CIDR{"10.71.0.0/16"}}}
		}, true},
		"networks that local ones are for": {configuration, func(o client.Object) {
			o.(*networkingv1beta1.Configuration).Status.ObservedRemote = &networkingv1beta1.ClusterConfig{}
		}, true},
		"whether networks are allocated": {configuration, func(o client.Object) {
			o.(*networkingv1beta1.Configuration).Status.Conditions = []metav1.Condition{{Type: networkingv1beta1.ConditionNetworkCIDRsConfigured, Status: metav1.ConditionTrue}}
		}, true},
		"the endpoint that a peer reports": {gatewayClient, func(o client.Object) {
			o.(*networkingv1beta1.GatewayClient).Status.Endpoint = &networkingv1beta1.EndpointStatus{Addresses: []string{"192.0.2.1"}, Port: 51820}
		}, false},
		"where a client runs": {gatewayClient, func(o client.Object) {
			o.(*networkingv1beta1.GatewayClient).Status.InternalEndpoint = &networkingv1beta1.InternalGatewayEndpoint{IP: new(networkingv1beta1.IP("10.200.1.9"))}
		}, true},
		"the replicas of a client": {gatewayClient, func(o client.Object) {
			o.(*networkingv1beta1.GatewayClient).Status.Replicas = []networkingv1beta1.GatewayReplica{{Name: "a", IP: "10.200.1.9"}}
		}, true},
		"the MTU of a client":    {gatewayClient, func(o client.Object) { o.(*networkingv1beta1.GatewayClient).Status.MTU = 1400 }, true},
		"that a client is to go": {gatewayClient, func(o client.Object) { o.SetDeletionTimestamp(new(metav1.Now())) }, true},
		"the endpoint of the server": {server, func(o client.Object) {
			o.(*networkingv1beta1.GatewayServer).Status.Endpoint = &networkingv1beta1.EndpointStatus{}
		}, false},
		"where a server runs": {server, func(o client.Object) {
			o.(*networkingv1beta1.GatewayServer).Status.InternalEndpoint = &networkingv1beta1.InternalGatewayEndpoint{IP: new(networkingv1beta1.IP("10.200.1.9"))}
		}, true},
		"the replicas of a server": {server, func(o client.Object) {
			o.(*networkingv1beta1.GatewayServer).Status.Replicas = []networkingv1beta1.GatewayReplica{{Name: "a", IP: "10.200.1.9"}}
		}, true},
		"the MTU of a server":      {server, func(o client.Object) { o.(*networkingv1beta1.GatewayServer).Status.MTU = 1400 }, true},
		"whose a server is":        {server, func(o client.Object) { o.SetLabels(map[string]string{"a": "b"}) }, true},
		"anything of another kind": {&networkingv1beta1.PublicKey{}, func(client.Object) {}, true},
	} {
		old := test.now.DeepCopyObject().(client.Object)
		now := test.now.DeepCopyObject().(client.Object)
		test.edit(now)
		if got := Matters(old, now); got != test.want {
			t.Errorf("%s matters: %t, want %t", name, got, test.want)
		}
	}
}

func TestHealthAfterFirstRun(t *testing.T) {
	var h Health
	if h.Check(nil) == nil {
		t.Error("healthy before the first run")
	}
	broken := errors.New("broken")
	for _, run := range []struct{ err, want error }{{broken, broken}, {nil, nil}, {broken, nil}} {
		h.Set(run.err)
		if got := h.Check(nil); got != run.want {
			t.Errorf("%v, want %v", got, run.want)
		}
	}
}
