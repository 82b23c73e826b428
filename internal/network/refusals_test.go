// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package network

import (
	"context"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"

	ipamv1alpha1 "liqo.io/liqo/api/ipam/v1alpha1"
	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/names"
	"liqo.io/liqo/internal/network/plan"
	"liqo.io/liqo/internal/testkit"
)

// refusing is a cluster whose controller-manager only says what is refused.
func refusing(t *testing.T) *testEnv {
	t.Helper()
	s := newTestEnv(t)
	user := "system:serviceaccount:" + s.liqo + ":" + names.ControllerManager
	const group, read = networkingv1beta1.GroupName, "get list watch"
	testkit.Allow(t, s.c, "", user,
		testkit.Rule(group, "configurations", strings.Fields(read)...), testkit.Rule(group, "configurations/status", "patch"),
		testkit.Rule(group, "gatewayservers", strings.Fields(read)...), testkit.Rule(group, "gatewayservers/status", "patch"),
		testkit.Rule(group, "gatewayclients", strings.Fields(read)...), testkit.Rule(group, "gatewayclients/status", "patch"),
		testkit.Rule(group, "internalnodes", strings.Fields(read)...), testkit.Rule("", "nodes", strings.Fields(read)...),
		testkit.Rule(ipamv1alpha1.GroupVersion.Group, "networks", strings.Fields(read)...),
		testkit.Rule(ipamv1alpha1.GroupVersion.Group, "ips", strings.Fields(read)...), testkit.Rule(ipamv1alpha1.GroupVersion.Group, "ips/status", "patch"),
		testkit.Rule("", "events", "create", "patch"), testkit.Rule("events.k8s.io", "events", "create", "patch"),
	)
	testkit.Manager(t, s.c.User(t, user), kube.ManagerOptions{Name: "refusals"}, func(mgr ctrl.Manager) error {
		return SetupRefusals(mgr, RefusalOptions{LiqoNamespace: s.liqo})
	})
	return s
}

// createTemporary makes an object that other tests would see, too.
func (s *testEnv) createTemporary(obj client.Object) {
	s.Helper()
	s.create(obj)
	s.Cleanup(func() { _ = client.IgnoreNotFound(s.c.Client.Delete(context.Background(), obj)) })
}

// own is a network of the cluster.
func (s *testEnv) own(kind string, cidr networkingv1beta1.CIDR) {
	s.Helper()
	n := &ipamv1alpha1.Network{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.liqo, Name: kind, Labels: map[string]string{names.NetworkType: kind}},
		Spec:       ipamv1alpha1.NetworkSpec{CIDR: cidr},
	}
	s.createTemporary(n)
	testkit.UpdateStatus(s.T, s.c.Client, n, func(n *ipamv1alpha1.Network) { n.Status.CIDR = cidr })
}

// seen is a Configuration whose networks have their place.
func (s *testEnv) seen(peer string, pod, external networkingv1beta1.CIDR) *networkingv1beta1.Configuration {
	s.Helper()
	cidrs := networkingv1beta1.ClusterConfigCIDR{Pod: []networkingv1beta1.CIDR{pod}, External: []networkingv1beta1.CIDR{external}}
	c := &networkingv1beta1.Configuration{ObjectMeta: s.meta(peer)}
	c.Labels[names.RemoteClusterID], c.Spec.Remote.CIDR = peer, cidrs
	s.createTemporary(c)
	testkit.UpdateStatus(s.T, s.c.Client, c, func(c *networkingv1beta1.Configuration) {
		c.Status.Remote = &networkingv1beta1.ClusterConfig{CIDR: cidrs}
		c.Status.Conditions = []metav1.Condition{{
			Type: networkingv1beta1.ConditionNetworkCIDRsConfigured, Status: metav1.ConditionTrue, Reason: ReasonConfigured,
			ObservedGeneration: c.Generation, LastTransitionTime: metav1.Now(),
		}}
	})
	return c
}

// ip is an IP that has its address.
func (s *testEnv) ip(name string, address, alias networkingv1beta1.IP) *ipamv1alpha1.IP {
	s.Helper()
	ip := &ipamv1alpha1.IP{ObjectMeta: metav1.ObjectMeta{Namespace: s.where, Name: name}, Spec: ipamv1alpha1.IPSpec{IP: address, Masquerade: new(true)}}
	s.createTemporary(ip)
	testkit.UpdateStatus(s.T, s.c.Client, ip, func(ip *ipamv1alpha1.IP) {
		ip.Status.IP, ip.Status.CIDR = alias, "10.70.0.0/16"
		ip.Status.Conditions = []metav1.Condition{{
			Type: ipamv1alpha1.ConditionAllocated, Status: metav1.ConditionTrue, Reason: "Allocated", LastTransitionTime: metav1.Now(),
		}}
	})
	return ip
}

// wantApplied expects an object to say why it is refused, or nothing with the reason "".
func (s *testEnv) wantApplied(obj client.Object, reason, text string) {
	s.Helper()
	s.eventually(func() error {
		if err := s.get(obj); err != nil {
			return err
		}
		c := apimeta.FindStatusCondition(*conditionsOf(obj), networkingv1beta1.ConditionApplied)
		switch {
		case c == nil && reason == "":
			return nil
		case c == nil || c.Reason != reason || (c.Status == metav1.ConditionTrue) != (reason == plan.ReasonRouteNeeded) || c.ObservedGeneration != obj.GetGeneration() || !strings.Contains(c.Message, text):
			return fmt.Errorf("%s: condition %+v, want %s with %q", obj.GetName(), c, reason, text)
		}
		return nil
	})
	if reason != "" {
		testkit.WantEvent(s.T, s.c, obj, reason, text)
	}
}

func TestUnappliedObjects(t *testing.T) {
	s := refusing(t)
	s.own(names.NetworkTypePod, "10.200.0.0/16")
	s.own(names.NetworkTypeExternal, "10.70.0.0/16")
	rome := s.seen("rome", "10.71.0.0/16", "10.68.0.0/16")
	template := &networkingv1beta1.WgGatewayServerTemplate{ObjectMeta: metav1.ObjectMeta{Namespace: s.liqo, Name: "any"}}
	first, second, stray := s.server("first", template), s.client("second", template), s.server("stray", template)
	stray.Namespace = s.liqo
	s.createTemporary(first)
	s.createTemporary(second)
	s.createTemporary(stray)
	s.wantApplied(second, plan.ReasonAnotherGateway, "GatewayServer "+s.where+"/first")
	s.wantApplied(stray, plan.ReasonConfigurationElsewhere, "Configuration "+s.where+"/rome")

	endpoint, unknown := s.ip("endpoint", "10.85.1.5", "10.70.0.28"), s.ip("unknown", "10.86.0.1", "10.70.0.29") // of peers without a network
	testkit.Update(t, s.c.Client, endpoint, func(ip *ipamv1alpha1.IP) {
		ip.Labels, ip.Spec.Masquerade = map[string]string{names.IPType: names.IPTypeEndpoint}, nil
	})
	testkit.Update(t, s.c.Client, unknown, func(ip *ipamv1alpha1.IP) {
		ip.OwnerReferences = []metav1.OwnerReference{{APIVersion: networkingv1beta1.GroupVersion.String(), Kind: "Configuration", Name: rome.Name, UID: rome.UID, Controller: new(true)}}
		ip.Spec.Masquerade = nil
	})
	far := s.ip("far", "192.0.2.7", "10.70.0.27")
	testkit.Update(t, s.c.Client, far, func(ip *ipamv1alpha1.IP) { ip.Spec.Masquerade = nil })
	s.wantApplied(far, plan.ReasonRouteNeeded, "192.0.2.7 sees the addresses of peers")
	testkit.Update(t, s.c.Client, far, func(ip *ipamv1alpha1.IP) { ip.Spec.Masquerade = new(true) })
	s.wantApplied(far, "", "")
	alias, other := s.ip("a", "192.0.2.1", "10.70.0.21"), s.ip("b", "192.0.2.1", "10.70.0.22")
	nowhere := s.ip("c", "169.254.169.254", "10.70.0.23")
	s.wantApplied(other, plan.ReasonAnotherIP, "10.70.0.21")
	s.wantApplied(nowhere, plan.ReasonUnusableAddress, "169.254.169.254")
	if !apimeta.IsStatusConditionTrue(other.Status.Conditions, ipamv1alpha1.ConditionAllocated) {
		t.Errorf("what others said is gone: %+v", other.Status.Conditions)
	}

	siena := s.seen("siena", "10.71.3.0/24", "10.69.0.0/16")
	s.wantApplied(siena, plan.ReasonNetworkInTheWay, "10.71.0.0/16 of Configuration "+s.where+"/rome")
	for _, well := range []client.Object{first, rome, alias, endpoint, unknown} {
		s.wantApplied(well, "", "")
	}

	// What is mended says nothing, but that it was mended.
	for _, gone := range []client.Object{first, alias} {
		if err := s.c.Client.Delete(t.Context(), gone); err != nil {
			t.Fatal(err)
		}
	}
	for _, well := range []client.Object{second, other} {
		s.wantApplied(well, "", "")
		testkit.WantEvent(t, s.c, well, reasonApplied, "")
	}
	s.wantApplied(nowhere, plan.ReasonUnusableAddress, "")
}

// Heartbeats of nodes, and what is said on IPs, let nobody look at all the others.
func TestProblemPredicates(t *testing.T) {
	node := func(edit func(*corev1.Node)) *corev1.Node {
		n := &corev1.Node{Status: corev1.NodeStatus{Addresses: []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "172.29.1.1"}}}}
		edit(n)
		return n
	}
	ip := func(edit func(*ipamv1alpha1.IP)) *ipamv1alpha1.IP {
		ip := &ipamv1alpha1.IP{Spec: ipamv1alpha1.IPSpec{IP: "192.0.2.1"}, Status: ipamv1alpha1.IPStatus{IP: "10.70.0.21"}}
		edit(ip)
		return ip
	}
	same := func(*ipamv1alpha1.IP) {}
	for says, rule := range map[string]struct {
		old, now client.Object
		want     bool
	}{
		"a heartbeat": {node(func(*corev1.Node) {}), node(func(n *corev1.Node) {
			n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady}}
		}), false},
		"a node that moves": {node(func(*corev1.Node) {}), node(func(n *corev1.Node) { n.Status.Addresses[0].Address = "172.29.1.2" }), true},
		"a condition of an IP": {ip(same), ip(func(ip *ipamv1alpha1.IP) {
			ip.Status.Conditions = []metav1.Condition{{Type: ipamv1alpha1.ConditionAllocated}}
		}), false},
		"who sees the client of an IP": {ip(same), ip(func(ip *ipamv1alpha1.IP) { ip.Spec.Masquerade = new(true) }), true},
		"an IP that gets its address":  {ip(func(ip *ipamv1alpha1.IP) { ip.Status.IP = "" }), ip(same), true},
		"an IP that goes":              {ip(same), ip(func(ip *ipamv1alpha1.IP) { ip.DeletionTimestamp = new(metav1.Now()) }), true},
		"which peers a node reaches": {&networkingv1beta1.InternalNode{}, &networkingv1beta1.InternalNode{Status: networkingv1beta1.InternalNodeStatus{
			Peers: []networkingv1beta1.InternalNodePeer{{ClusterID: "rome"}},
		}}, false},
		"why a node has no address": {&networkingv1beta1.InternalNode{}, &networkingv1beta1.InternalNode{Status: networkingv1beta1.InternalNodeStatus{
			Conditions: []metav1.Condition{{Type: ipamv1alpha1.ConditionAllocated}},
		}}, false},
		"where a node is reached": {&networkingv1beta1.InternalNode{}, &networkingv1beta1.InternalNode{Status: networkingv1beta1.InternalNodeStatus{
			PodCIDRs: []networkingv1beta1.CIDR{"10.200.1.0/24"},
		}}, true},
		"networks that a peer reports": {&networkingv1beta1.Configuration{}, &networkingv1beta1.Configuration{Status: networkingv1beta1.ConfigurationStatus{
			ReportedRemote: &networkingv1beta1.ClusterConfig{},
		}}, false},
		"networks of a peer": {&networkingv1beta1.Configuration{}, &networkingv1beta1.Configuration{ObjectMeta: metav1.ObjectMeta{Generation: 2}}, true},
		"a condition of a Configuration": {&networkingv1beta1.Configuration{}, &networkingv1beta1.Configuration{Status: networkingv1beta1.ConfigurationStatus{
			Conditions: []metav1.Condition{{Type: "Applied"}},
		}}, true},
		"the endpoint that a peer reports": {&networkingv1beta1.GatewayClient{}, &networkingv1beta1.GatewayClient{
			ObjectMeta: metav1.ObjectMeta{ResourceVersion: "7"}, Status: networkingv1beta1.GatewayClientStatus{Endpoint: &networkingv1beta1.EndpointStatus{}},
		}, false},
		"where a gateway runs": {&networkingv1beta1.GatewayClient{}, &networkingv1beta1.GatewayClient{Status: networkingv1beta1.GatewayClientStatus{MTU: 7}}, true},
		"any other":            {&networkingv1beta1.GatewayServer{}, &networkingv1beta1.GatewayServer{}, true},
	} {
		if got := changesDecision(event.UpdateEvent{ObjectOld: rule.old, ObjectNew: rule.now}); got != rule.want {
			t.Errorf("%s decides: %t, want %t", says, got, rule.want)
		}
	}
}
