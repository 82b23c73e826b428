// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	ipamv1alpha1 "liqo.io/liqo/api/ipam/v1alpha1"
	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
	"liqo.io/liqo/internal/datapath"
	"liqo.io/liqo/internal/names"
	"liqo.io/liqo/internal/prefix"
)

var values = cmp.Options{
	cmpopts.EquateEmpty(),
	cmp.Comparer(func(a, b netip.Addr) bool { return a == b }), cmp.Comparer(func(a, b netip.Prefix) bool { return a == b }),
	cmp.Comparer(func(a, b netip.AddrPort) bool { return a == b }), cmp.Comparer(func(a, b prefix.Pair) bool { return a == b }),
}

func equal(t *testing.T, what string, want, got any) {
	t.Helper()
	if diff := cmp.Diff(want, got, values); diff != "" {
		t.Errorf("%s: %s", what, diff)
	}
}

func messages(problems []Problem) (out []string) {
	for _, p := range problems {
		out = append(out, p.String())
	}
	return out
}

func configuration(remote, local networkingv1beta1.ClusterConfigCIDR) *networkingv1beta1.Configuration {
	return &networkingv1beta1.Configuration{
		ObjectMeta: metav1.ObjectMeta{Namespace: "liqo-tenant-rome", Name: "rome", Generation: 2, Labels: map[string]string{names.RemoteClusterID: "rome"}},
		Spec:       networkingv1beta1.ConfigurationSpec{Remote: networkingv1beta1.ClusterConfig{CIDR: remote}},
		Status: networkingv1beta1.ConfigurationStatus{
			Remote:     &networkingv1beta1.ClusterConfig{CIDR: local},
			Conditions: []metav1.Condition{{Type: networkingv1beta1.ConditionNetworkCIDRsConfigured, Status: metav1.ConditionTrue, ObservedGeneration: 2}},
		},
	}
}

func TestPeersFromConfigurations(t *testing.T) {
	type cidrs = []networkingv1beta1.CIDR
	c := configuration(networkingv1beta1.ClusterConfigCIDR{Pod: cidrs{"10.200.0.0/16", "x", "fd00:200::1/56"}, External: cidrs{"10.70.0.0/16"}},
		networkingv1beta1.ClusterConfigCIDR{Pod: cidrs{"10.71.0.0/16", "10.72.0.0/16", "fd00:71::/56"}, External: cidrs{}})
	p, ok, problems := PeerOf(c)
	want := peer("rome", pairs("10.200.0.0/16 10.71.0.0/16", "fd00:200::/56 fd00:71::/56"), nil)
	equal(t, "peer", want, p)
	equal(t, "problems", []string{
		`Configuration liqo-tenant-rome/rome: spec.remote.cidr.pod: "x" is not a network`,
		"Configuration liqo-tenant-rome/rome: the peer has 1 external networks, and 0 are mapped",
	}, messages(problems))
	if !ok {
		t.Error("the peer is not ready")
	}
	edited := c.DeepCopy()
	edited.Status.ObservedRemote = c.Spec.Remote.DeepCopy()
	edited.Generation, edited.Spec.Local = 3, &networkingv1beta1.ClusterConfig{}
	if _, ok, _ := PeerOf(edited); !ok {
		t.Error("a Configuration whose own networks were written is not ready any more")
	}
	for what, corrupt := range map[string]func(*networkingv1beta1.Configuration){
		"of an older generation":  func(c *networkingv1beta1.Configuration) { c.Generation = 3 },
		"of other networks":       func(c *networkingv1beta1.Configuration) { c.Status.ObservedRemote = &networkingv1beta1.ClusterConfig{} },
		"with a false condition":  func(c *networkingv1beta1.Configuration) { c.Status.Conditions[0].Status = metav1.ConditionFalse },
		"without a condition":     func(c *networkingv1beta1.Configuration) { c.Status.Conditions = nil },
		"without remote networks": func(c *networkingv1beta1.Configuration) { c.Status.Remote = nil },
	} {
		old := c.DeepCopy()
		corrupt(old)
		if _, ok, _ := PeerOf(old); ok {
			t.Errorf("a Configuration %s is ready", what)
		}
	}
}

// Who was there first is known of all that may contradict each other.
func TestAgesOfObjects(t *testing.T) {
	meta := metav1.ObjectMeta{CreationTimestamp: metav1.Unix(7, 0)}
	peer, _, _ := PeerOf(&networkingv1beta1.Configuration{ObjectMeta: meta})
	server, _, _ := TunnelOfServer(&networkingv1beta1.GatewayServer{ObjectMeta: meta})
	client, _, _ := TunnelOfClient(&networkingv1beta1.GatewayClient{ObjectMeta: meta})
	member, _ := MemberOf(&networkingv1beta1.InternalNode{ObjectMeta: meta})
	alias, _, _ := AliasOf(&ipamv1alpha1.IP{ObjectMeta: meta})
	routing, _ := RoutingOf(&networkingv1beta1.RouteConfiguration{ObjectMeta: meta})
	firewall, _ := FirewallOf(&networkingv1beta1.FirewallConfiguration{ObjectMeta: meta})
	for i, since := range []time.Time{peer.Since, server.Since, client.Since, member.Since, alias.Since, routing.Since, firewall.Since} {
		if !since.Equal(time.Unix(7, 0)) {
			t.Errorf("%d: %s", i, since)
		}
	}
}

func TestTunnelsFromGateways(t *testing.T) {
	g := &networkingv1beta1.GatewayServer{ObjectMeta: metav1.ObjectMeta{Namespace: "liqo-tenant-rome", Name: "rome", Labels: map[string]string{names.RemoteClusterID: "rome"}}}
	g.Spec.MTU = 1300
	got, ok, problems := TunnelOfServer(g)
	want := tunnel("rome", "")
	want.MTU, want.Asked = 1300, 1300
	equal(t, "without address", want, got)
	if !ok || len(problems) > 0 {
		t.Error(ok, problems)
	}
	for _, test := range []struct{ most, is, want int }{
		{1300, 1232, 1232}, {0, 1440, 1440}, {1300, 1340, 1300}, {1300, 0, 1300}, {1300, -1, 1300}, {0, 70000, 0}, {100, 1340, 1340}, {100, 1280, 1280}, {70000, 1340, 1340}, {70000, 0, 1340},
	} {
		g.Spec.MTU, g.Status.MTU = test.most, test.is
		client := &networkingv1beta1.GatewayClient{}
		client.Spec.MTU, client.Status.MTU = test.most, test.is
		got, _, _ := TunnelOfServer(g)
		other, _, _ := TunnelOfClient(client)
		if got.MTU != test.want || other.MTU != test.want {
			t.Errorf("of %d at most, and %d that pass: %d and %d, want %d", test.most, test.is, got.MTU, other.MTU, test.want)
		}
	}
	g.Spec.MTU, g.Status.MTU = 1300, 0
	g.Status.InternalEndpoint = &networkingv1beta1.InternalGatewayEndpoint{IP: new(networkingv1beta1.IP("10.200.1.9"))}
	got, _, _ = TunnelOfServer(g)
	want.Active = addr("10.200.1.9")
	equal(t, "with one", want, got)
	g.DeletionTimestamp = new(metav1.Now())
	if _, ok, _ := TunnelOfServer(g); ok {
		t.Error("a gateway that is deleted is used")
	}
	client := &networkingv1beta1.GatewayClient{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "c"}}
	client.Status.InternalEndpoint = &networkingv1beta1.InternalGatewayEndpoint{IP: new(networkingv1beta1.IP("10.200.1.9/24"))}
	_, _, problems = TunnelOfClient(client)
	equal(t, "problems", []string{`GatewayClient n/c: status.internalEndpoint.ip: "10.200.1.9/24" is not an address`}, messages(problems))
}

func TestNodesFromInternalNodes(t *testing.T) {
	n := &networkingv1beta1.InternalNode{ObjectMeta: metav1.ObjectMeta{Name: "worker-1"}}
	equal(t, "new", ClusterNode{Of: Object{"InternalNode", "", "worker-1"}}, first1(MemberOf(n)))
	n.Spec.Interface.Node.IP = "10.70.0.11"
	n.Status.NodeIP = networkingv1beta1.InternalNodeStatusNodeIP{Local: new(networkingv1beta1.IP("10.200.1.1")), Remote: new(networkingv1beta1.IP("172.29.1.1"))}
	n.Status.PodCIDRs = []networkingv1beta1.CIDR{"10.200.1.0/24", "10.200.1/24"}
	got, problems := MemberOf(n)
	equal(t, "member", member("worker-1", "10.70.0.11", "10.200.1.1", "172.29.1.1", "10.200.1.0/24"), got)
	equal(t, "problems", []string{`InternalNode worker-1: status.podCIDRs: "10.200.1/24" is not a network`}, messages(problems))
}

func first1[T any](v T, _ []Problem) T { return v }

func TestAliasesFromIPs(t *testing.T) {
	ip := &ipamv1alpha1.IP{ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: "printer"}, Spec: ipamv1alpha1.IPSpec{IP: "172.29.1.100", Masquerade: new(true)}}
	if _, ok, _ := AliasOf(ip); ok {
		t.Error("an IP without address is an alias")
	}
	ip.Status.IP = "10.70.0.21"
	got, ok, _ := AliasOf(ip)
	equal(t, "alias", alias("printer", "10.70.0.21", "172.29.1.100", true), got)
	if !ok {
		t.Error("no alias")
	}
	ip.Labels = map[string]string{names.IPType: names.IPTypeEndpoint}
	for list, want := range map[string][]string{"": {""}, "rome": {"rome"}, "oslo,rome": {"oslo", "rome"}} {
		ip.Annotations = map[string]string{names.AllowedPeers: list}
		got, _, _ := AliasOf(ip)
		equal(t, "allowed peers", want, got.Peers)
	}
	ip.Annotations[names.AllowedPeers] = strings.Repeat("rome,", 10000)
	if got, _, _ := AliasOf(ip); len(got.Peers) != names.MaxAllowedPeers {
		t.Errorf("%d peers are allowed", len(got.Peers))
	}
	ip.Labels, ip.Annotations = nil, nil
	ip.Spec.IP = "printer"
	_, ok, problems := AliasOf(ip)
	equal(t, "problems", []string{`IP demo/printer: spec.ip: "printer" is not an address`}, messages(problems))
	ip.Spec.IP, ip.Labels = "172.29.1.100", map[string]string{names.HostUnreachable: "true"}
	if _, unreachable, _ := AliasOf(ip); ok || unreachable {
		t.Error("what is nobody's is an alias")
	}
}

func TestOwnNetworks(t *testing.T) {
	network := func(ns, name, kind, cidr string) ipamv1alpha1.Network {
		return ipamv1alpha1.Network{
			ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name, Labels: map[string]string{names.NetworkType: kind}},
			Status:     ipamv1alpha1.NetworkStatus{CIDR: networkingv1beta1.CIDR(cidr)},
		}
	}
	pods, services, external, problems := Own([]ipamv1alpha1.Network{
		network("liqo", "pods", names.NetworkTypePod, "10.200.0.0/16"), network("liqo", "more-pods", names.NetworkTypePod, "10.210.0.0/16"),
		network("liqo", "services", names.NetworkTypeService, "10.96.0.0/12"), network("liqo", "external", names.NetworkTypeExternal, "10.70.0.0/16"),
		network("liqo", "reserved", names.NetworkTypeReserved, "10.0.0.0/16"), network("liqo", "late", names.NetworkTypePod, ""),
		network("liqo", "bad", names.NetworkTypePod, "10"), network("liqo-tenant-rome", "peer", names.NetworkTypePod, "10.71.0.0/16"),
	}, "liqo")
	equal(t, "networks", [][]netip.Prefix{nets("10.200.0.0/16", "10.210.0.0/16"), nets("10.96.0.0/12"), nets("10.70.0.0/16")}, [][]netip.Prefix{pods, services, external})
	equal(t, "problems", []string{`Network liqo/bad: status.cidr: "10" is not a network`}, messages(problems))
}

func TestPeerReservations(t *testing.T) {
	network := func(name, cidr string, labels ...string) ipamv1alpha1.Network {
		n := ipamv1alpha1.Network{ObjectMeta: metav1.ObjectMeta{Namespace: "liqo-tenant-rome", Name: name, Labels: map[string]string{}}}
		n.Status.CIDR = networkingv1beta1.CIDR(cidr)
		for _, l := range labels {
			n.Labels[l] = "x"
		}
		return n
	}
	held, problems := Held([]ipamv1alpha1.Network{
		network("pods", "10.71.0.0/16", names.CIDRType), network("late", "", names.CIDRType), network("somebody's", "10.9.0.0/16"),
		network("ours", "10.200.0.0/16", names.NetworkType), network("bad", "10", names.CIDRType),
	})
	equal(t, "held", nets("10.71.0.0/16"), held)
	equal(t, "problems", []string{`Network liqo-tenant-rome/bad: status.cidr: "10" is not a network`}, messages(problems))
}

func TestServices(t *testing.T) {
	s := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "kubernetes"}, Spec: corev1.ServiceSpec{
		ClusterIPs: []string{"10.96.0.1", "None"}, Ports: []corev1.ServicePort{{Name: "https", Port: 443}, {Name: "other", Port: 1, Protocol: corev1.ProtocolUDP}, {Name: "sctp", Port: 1, Protocol: corev1.ProtocolSCTP}},
	}}
	behind := []discoveryv1.EndpointSlice{{
		Ports:     []discoveryv1.EndpointPort{{Name: new("https"), Port: new(int32(6443))}},
		Endpoints: []discoveryv1.Endpoint{{Addresses: []string{"172.29.1.1"}}, {Addresses: []string{"172.29.1.2"}, Conditions: discoveryv1.EndpointConditions{Ready: new(false)}}, {Addresses: []string{"host"}}},
	}}
	equal(t, "service", Service{Of: Object{"Service", "default", "kubernetes"}, ClusterIPs: addrs("10.96.0.1"), Ports: []ServicePort{
		{datapath.TCP, 443, []netip.AddrPort{netip.MustParseAddrPort("172.29.1.1:6443")}}, {datapath.UDP, 1, nil},
	}}, ServiceOf(s, behind))
}

func TestNodeAddresses(t *testing.T) {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "worker-1"}, Status: corev1.NodeStatus{Addresses: []corev1.NodeAddress{
		{Type: corev1.NodeInternalIP, Address: "172.29.1.1"}, {Type: corev1.NodeHostName, Address: "worker-1"}, {Type: corev1.NodeInternalIP, Address: "fd00:29::1"},
	}}}
	equal(t, "taken", []ReservedPrefix{{nets("172.29.1.1/32")[0], "address of Node worker-1"}, {nets("fd00:29::1/128")[0], "address of Node worker-1"}}, TakenByNode(n))
}
