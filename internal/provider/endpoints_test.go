// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package provider

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	_ "liqo.io/liqo/internal/testkit/repeatable"
	"pgregory.net/rapid"

	ipamv1alpha1 "liqo.io/liqo/api/ipam/v1alpha1"
	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
	offv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/names"
	"liqo.io/liqo/internal/prefix"
)

// tunnelled is a consumer whose pods, 10.200/16 there, are 10.71/16 here.
func tunnelled(up bool) peerRoute {
	parse := netip.MustParsePrefix
	m, err := prefix.New(
		[]netip.Prefix{parse("10.200.0.0/16"), parse("10.70.0.0/16"), parse("fd00::/64")},
		[]netip.Prefix{parse("10.71.0.0/16"), parse("10.68.0.0/16"), parse("fd01::/64")})
	if err != nil {
		panic(err)
	}
	return peerRoute{placed: true, peer: m, up: up}
}

func shadowSlice(family discoveryv1.AddressType, endpoints ...discoveryv1.Endpoint) *offv1beta1.ShadowEndpointSlice {
	return &offv1beta1.ShadowEndpointSlice{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop-rome", Name: "web-x", Labels: map[string]string{
			discoveryv1.LabelServiceName: "web", names.OffloadingOrigin: "rome", discoveryv1.LabelManagedBy: "somebody", names.ManagedBy: "nobody",
		}, Annotations: map[string]string{"a": "b", names.DirectConnections: "{}", names.AppliedHash + ".x": "1"}},
		Spec: offv1beta1.ShadowEndpointSliceSpec{Template: offv1beta1.EndpointSliceTemplate{
			AddressType: family, Endpoints: endpoints, Ports: []discoveryv1.EndpointPort{{Port: new(int32(80))}},
		}},
	}
}

func TestEndpoints(t *testing.T) {
	for rule, test := range map[string]struct {
		address string
		family  discoveryv1.AddressType
		in      peerRoute
		want    string // "" if it is dropped
	}{
		"a pod, as it is here":                     {"10.200.1.5", "IPv4", tunnelled(true), "10.71.1.5"},
		"what the consumer shows to peers":         {"10.70.0.9", "IPv4", tunnelled(true), "10.68.0.9"},
		"of any family":                            {"fd00::5", "IPv6", tunnelled(true), "fd01::5"},
		"of the family of the slice":               {"fd00::5", "IPv4", tunnelled(true), ""},
		"an IPv4 address written as IPv6":          {"::ffff:10.200.1.5", "IPv4", tunnelled(true), ""},
		"an address of this cluster":               {"10.96.0.1", "IPv4", tunnelled(true), ""},
		"a local view is none of the consumer's":   {"10.71.1.5", "IPv4", tunnelled(true), ""},
		"the metadata of a cloud":                  {"169.254.169.254", "IPv4", tunnelled(true), ""},
		"a name":                                   {"db.example.com", "FQDN", tunnelled(true), ""},
		"without a network, as it is":              {"192.0.2.7", "IPv4", peerRoute{flat: true}, "192.0.2.7"},
		"without a network, but no pod of ours":    {"10.1.2.3", "IPv4", peerRoute{flat: true, own: []netip.Prefix{netip.MustParsePrefix("10.1.2.0/24")}}, ""},
		"without a network, but no loopback":       {"127.0.0.1", "IPv4", peerRoute{flat: true}, ""},
		"without a network, but no metadata":       {"169.254.169.254", "IPv4", peerRoute{flat: true}, ""},
		"without a network, but no multicast":      {"224.0.0.1", "IPv4", peerRoute{flat: true}, ""},
		"without a network, nothing unspecified":   {"0.0.0.0", "IPv4", peerRoute{flat: true}, ""},
		"nor an IPv4 address written as IPv6":      {"::ffff:10.1.2.3", "IPv6", peerRoute{flat: true, own: []netip.Prefix{netip.MustParsePrefix("10.1.2.0/24")}}, ""},
		"without a network, but nothing with zone": {"fe80::1%eth0", "IPv6", peerRoute{flat: true}, ""},
	} {
		t.Run(rule, func(t *testing.T) {
			got, dropped := endpointSlice(shadowSlice(test.family, discoveryv1.Endpoint{Addresses: []string{test.address}}), "rome", test.in)
			if test.want == "" {
				if fmt.Sprint(dropped) != "["+test.address+"]" || len(got.Endpoints) != 0 {
					t.Errorf("got %v without %v", got.Endpoints, dropped)
				}
				return
			}
			if len(dropped) != 0 || len(got.Endpoints) != 1 || got.Endpoints[0].Addresses[0] != test.want {
				t.Errorf("got %v without %v", got.Endpoints, dropped)
			}
		})
	}
}

func TestDirectEndpoints(t *testing.T) {
	turin, err := prefix.New([]netip.Prefix{netip.MustParsePrefix("10.200.0.0/16")}, []netip.Prefix{netip.MustParsePrefix("10.69.0.0/16")})
	if err != nil {
		t.Fatal(err)
	}
	route := tunnelled(true)
	route.direct = map[string]directRoute{
		"turin":   {addresses: map[string]bool{"10.200.1.5": true, "10.70.0.9": true, "x": true}, placed: true, pods: turin},
		"unknown": {addresses: map[string]bool{"10.200.1.5": true}},
		"rome":    {addresses: map[string]bool{"10.200.1.9": true}},
	}
	for name, test := range map[string]struct {
		node, address, want string
		ready               bool
	}{
		"of the consumer":                     {"rome", "10.200.1.5", "10.71.1.5", true},
		"of another cluster, same address":    {"turin", "10.200.1.5", "10.69.1.5", false},
		"not listed":                          {"turin", "10.200.1.6", "", false},
		"cluster or node that is not listed":  {"our-node", "10.200.1.5", "", false},
		"external address of another cluster": {"turin", "10.70.0.9", "", false},
		"no address":                          {"turin", "x", "", false},
		"cluster without a network":           {"unknown", "10.200.1.5", "", false},
		"consumer as another cluster":         {"rome", "10.200.1.9", "", false},
	} {
		t.Run(strings.ReplaceAll(name, " ", "_"), func(t *testing.T) {
			got, dropped := endpointSlice(shadowSlice("IPv4", discoveryv1.Endpoint{NodeName: &test.node, Addresses: []string{test.address}}), "rome", route)
			if test.want == "" {
				if len(got.Endpoints) != 0 || len(dropped) != 1 {
					t.Errorf("got %v without %v", got.Endpoints, dropped)
				}
				return
			}
			if len(got.Endpoints) != 1 || got.Endpoints[0].Addresses[0] != test.want || *got.Endpoints[0].NodeName != "rome" {
				t.Fatalf("got %v without %v", got.Endpoints, dropped)
			}
			if ready := got.Endpoints[0].Conditions.Ready; test.ready != (ready == nil || *ready) {
				t.Errorf("ready is not %t", test.ready)
			}
		})
	}
}

func TestEndpointsOwnAddresses(t *testing.T) {
	network := func(namespace, kind string, spec, status networkingv1beta1.CIDR) ipamv1alpha1.Network {
		return ipamv1alpha1.Network{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Labels: map[string]string{names.NetworkType: kind}},
			Spec:       ipamv1alpha1.NetworkSpec{CIDR: spec}, Status: ipamv1alpha1.NetworkStatus{CIDR: status},
		}
	}
	node := corev1.Node{Spec: corev1.NodeSpec{PodCIDRs: []string{"10.200.1.0/24", "fd00:1::/64"}}}
	node.Status.Addresses = []corev1.NodeAddress{
		{Type: corev1.NodeHostName, Address: "worker"}, {Type: corev1.NodeInternalIP, Address: "172.18.0.4"}, {Type: corev1.NodeExternalIP, Address: "2001:db8::4"},
	}
	for what, test := range map[string]struct {
		networks []ipamv1alpha1.Network
		services []string
		address  string
		want     bool
	}{
		"a pod":                                {address: "10.200.1.7", want: true},
		"one of another family":                {address: "fd00:1::7", want: true},
		"a node":                               {address: "172.18.0.4", want: true},
		"what peers call a node":               {address: "2001:db8::4", want: true},
		"a neighbour of a node":                {address: "172.18.0.5"},
		"a Service":                            {services: []string{"10.96.0.0/12"}, address: "10.96.0.1", want: true},
		"a pod of a CNI with its own ranges":   {networks: []ipamv1alpha1.Network{network("liqo", names.NetworkTypePod, "10.0.0.0/16", "10.0.0.0/16")}, address: "10.0.3.4", want: true},
		"before it is granted":                 {networks: []ipamv1alpha1.Network{network("liqo", names.NetworkTypePod, "10.0.0.0/16", "")}, address: "10.0.3.4", want: true},
		"a Service by its Network":             {networks: []ipamv1alpha1.Network{network("liqo", names.NetworkTypeService, "10.96.0.0/12", "")}, address: "10.96.0.1", want: true},
		"what is shown to peers":               {networks: []ipamv1alpha1.Network{network("liqo", names.NetworkTypeExternal, "10.70.0.0/16", "10.71.0.0/16")}, address: "10.71.0.1", want: true},
		"but not what it was to be":            {networks: []ipamv1alpha1.Network{network("liqo", names.NetworkTypeExternal, "10.70.0.0/16", "10.71.0.0/16")}, address: "10.70.0.1"},
		"between nodes and gateways":           {networks: []ipamv1alpha1.Network{network("liqo", names.NetworkTypeInternal, "10.80.0.0/16", "10.80.0.0/16")}, address: "10.80.0.1", want: true},
		"a pod of another peer, as it is here": {networks: []ipamv1alpha1.Network{network("liqo-tenant-turin", "", "10.200.0.0/16", "10.68.0.0/16")}, address: "10.68.0.1", want: true},
		"but not as it is there":               {networks: []ipamv1alpha1.Network{network("liqo-tenant-turin", "", "10.201.0.0/16", "10.68.0.0/16")}, address: "10.201.0.1"},
		"what is reserved is for others":       {networks: []ipamv1alpha1.Network{network("liqo", names.NetworkTypeReserved, "192.168.0.0/16", "192.168.0.0/16")}, address: "192.168.0.1"},
		"a type counts in the installation":    {networks: []ipamv1alpha1.Network{network("shop", names.NetworkTypeReserved, "192.168.0.0/16", "192.168.0.0/16")}, address: "192.168.0.1", want: true},
	} {
		services := []networkingv1.ServiceCIDR{{Spec: networkingv1.ServiceCIDRSpec{CIDRs: test.services}}}
		own := inUse([]corev1.Node{node}, test.networks, services, "liqo")
		if _, shown := (peerRoute{flat: true, own: own}).toLocal(test.address); shown == test.want {
			t.Errorf("%s: a consumer may name %s: %t", what, test.address, shown)
		}
	}
}

func TestEndpointsWithoutMapping(t *testing.T) {
	got, dropped := endpointSlice(shadowSlice("IPv4", discoveryv1.Endpoint{Addresses: []string{"10.200.1.5"}}), "rome", peerRoute{up: true})
	if len(got.Endpoints)+len(dropped) != 0 || got.Endpoints == nil {
		t.Errorf("got %v without %v", got.Endpoints, dropped)
	}
}

// An endpoint in a network that is not remapped yet is left out, and not listed as dropped.
func TestEndpointsAwaited(t *testing.T) {
	endpoints := shadowSlice("IPv4", discoveryv1.Endpoint{Addresses: []string{"10.74.0.9"}}, discoveryv1.Endpoint{Addresses: []string{"10.70.0.9"}})
	got, dropped := endpointSlice(endpoints, "rome", peerRoute{placed: true, peer: partlyPlaced(t), up: true})
	if len(dropped) > 0 || len(got.Endpoints) != 1 || got.Endpoints[0].Addresses[0] != "10.68.0.9" {
		t.Errorf("got %v without %v", got.Endpoints, dropped)
	}
}

func TestEndpointReadiness(t *testing.T) {
	for name, test := range map[string]struct {
		in   peerRoute
		was  discoveryv1.EndpointConditions
		want discoveryv1.EndpointConditions
	}{
		"with a tunnel as it says":        {tunnelled(true), discoveryv1.EndpointConditions{Ready: new(true)}, discoveryv1.EndpointConditions{Ready: new(true)}},
		"with a tunnel and nothing said":  {tunnelled(true), discoveryv1.EndpointConditions{}, discoveryv1.EndpointConditions{}},
		"with a tunnel what is not ready": {tunnelled(true), discoveryv1.EndpointConditions{Ready: new(false)}, discoveryv1.EndpointConditions{Ready: new(false)}},
		"without":                         {tunnelled(false), discoveryv1.EndpointConditions{}, discoveryv1.EndpointConditions{Ready: new(false), Serving: new(false)}},
		"without, though it ends": {
			tunnelled(false), discoveryv1.EndpointConditions{Ready: new(false), Serving: new(true), Terminating: new(true)},
			discoveryv1.EndpointConditions{Ready: new(false), Serving: new(false), Terminating: new(true)},
		},
	} {
		got, _ := endpointSlice(shadowSlice("IPv4", discoveryv1.Endpoint{Addresses: []string{"10.200.1.5"}, Conditions: test.was}), "rome", test.in)
		if diff := cmp.Diff(test.want, got.Endpoints[0].Conditions); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestEndpointFields(t *testing.T) {
	claimed := discoveryv1.Endpoint{
		Addresses: []string{"10.200.1.5"}, Hostname: new("web-0"), NodeName: new("rome"), Zone: new("a"),
		Hints:     &discoveryv1.EndpointHints{ForZones: []discoveryv1.ForZone{{Name: "a"}}},
		TargetRef: &corev1.ObjectReference{Kind: "Pod", Name: "one-of-ours"},
	}
	honest := discoveryv1.Endpoint{Addresses: []string{"10.200.1.6"}, TargetRef: &corev1.ObjectReference{Kind: "RemotePod", Name: "web-0"}}
	got, _ := endpointSlice(shadowSlice("IPv4", claimed, honest), "rome", tunnelled(true))
	want := []discoveryv1.Endpoint{
		{Addresses: []string{"10.71.1.5"}, Hostname: new("web-0"), NodeName: new("rome")},
		{Addresses: []string{"10.71.1.6"}, TargetRef: honest.TargetRef, NodeName: new("rome")},
	}
	if diff := cmp.Diff(want, got.Endpoints); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	labels := map[string]string{
		discoveryv1.LabelServiceName: "web", names.OffloadingOrigin: "rome",
		discoveryv1.LabelManagedBy: "endpointslice.reflection.liqo.io", names.ManagedBy: "shadowendpointslice",
	}
	if diff := cmp.Diff([]any{labels, map[string]string{"a": "b"}}, []any{got.Labels, got.Annotations}); diff != "" {
		t.Errorf("metadata (-want +got):\n%s", diff)
	}
}

// Whatever a consumer asks for, nothing is shown but the local view of its own networks.
func TestEndpointForeignNames(t *testing.T) {
	localPrefixes := []netip.Prefix{netip.MustParsePrefix("10.71.0.0/16"), netip.MustParsePrefix("10.68.0.0/16"), netip.MustParsePrefix("fd01::/64")}
	rapid.Check(t, func(t *rapid.T) {
		var endpoints []discoveryv1.Endpoint
		for range rapid.IntRange(0, 5).Draw(t, "endpoints") {
			octets := rapid.SliceOfN(rapid.Byte(), 4, 16).Draw(t, "address")
			text := netip.AddrFrom4([4]byte(octets)).String()
			switch {
			case len(octets) == 16:
				text = netip.AddrFrom16([16]byte(octets)).String()
			case rapid.Bool().Draw(t, "of a pod"):
				text = fmt.Sprintf("10.200.%d.%d", octets[0], octets[1])
			}
			endpoints = append(endpoints, discoveryv1.Endpoint{Addresses: []string{text}})
		}
		got, dropped := endpointSlice(shadowSlice("IPv4", endpoints...), "rome", tunnelled(rapid.Bool().Draw(t, "up")))
		if len(got.Endpoints)+len(dropped) != len(endpoints) {
			t.Fatalf("of %d endpoints %d are shown and %d dropped", len(endpoints), len(got.Endpoints), len(dropped))
		}
		for _, e := range got.Endpoints {
			addr := netip.MustParseAddr(e.Addresses[0])
			if !localPrefixes[0].Contains(addr) && !localPrefixes[1].Contains(addr) && !localPrefixes[2].Contains(addr) {
				t.Fatalf("%s is shown", addr)
			}
		}
	})
}

// An EndpointSlice commands programs of this cluster no more than a pod does.
func TestMetadataOfEndpointSlices(t *testing.T) {
	ses := shadowSlice("IPv4")
	ses.Labels = map[string]string{
		discoveryv1.LabelServiceName: "web", "networking.liqo.io/component": "gateway", "istio.io/rev": "x", names.OffloadingDestination: "milan",
	}
	ses.Annotations = map[string]string{"note": "kept", "service.cilium.io/global": "true"}
	got, _ := endpointSlice(ses, "rome", tunnelled(true), "istio.io/*", "*.cilium.io/*")
	want := metav1.ObjectMeta{
		Namespace: ses.Namespace, Name: ses.Name, Annotations: map[string]string{"note": "kept"},
		Labels: map[string]string{
			discoveryv1.LabelServiceName: "web", discoveryv1.LabelManagedBy: names.EndpointSliceManager, names.OffloadingDestination: "milan",
			names.OffloadingOrigin: "rome", names.ManagedBy: madeFromSlice,
		},
	}
	if diff := cmp.Diff(want, got.ObjectMeta); diff != "" {
		t.Error(diff)
	}
}
