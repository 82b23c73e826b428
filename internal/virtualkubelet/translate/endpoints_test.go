// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package translate

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	"liqo.io/liqo/internal/names"
	"liqo.io/liqo/internal/prefix"
)

// hub knows its own pods, those of milan as 10.71/16, and one address that is shown to peers.
func hub() Addresses {
	return Addresses{
		Pods:    []netip.Prefix{netip.MustParsePrefix("10.200.0.0/16"), netip.MustParsePrefix("fd00::/64")},
		Peer:    peerMap("10.200.0.0/16", "10.71.0.0/16", "10.70.0.0/16", "10.68.0.0/16"),
		Others:  map[string]prefix.Map{"turin": peerMap("10.200.0.0/16", "10.69.0.0/16")},
		Exposed: map[netip.Addr]netip.Addr{netip.MustParseAddr("10.69.0.7"): netip.MustParseAddr("10.70.0.9"), netip.MustParseAddr("10.71.0.3"): netip.MustParseAddr("10.70.0.10")},
	}
}

func sliceOf(endpoints ...discoveryv1.Endpoint) *discoveryv1.EndpointSlice {
	return &discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{Name: "web-x", Namespace: "shop", Labels: map[string]string{
			discoveryv1.LabelServiceName: "web", discoveryv1.LabelManagedBy: "endpointslice-controller.k8s.io",
		}, Annotations: map[string]string{corev1.EndpointsLastChangeTriggerTime: "now", "a": "b"}},
		AddressType: discoveryv1.AddressTypeIPv4, Endpoints: endpoints,
		Ports: []discoveryv1.EndpointPort{{Name: new("http"), Protocol: new(corev1.ProtocolTCP), Port: new(int32(8080))}},
	}
}

func on(node string, addresses ...string) discoveryv1.Endpoint {
	e := discoveryv1.Endpoint{Addresses: addresses}
	if node != "" {
		e.NodeName = &node
	}
	return e
}

func TestWhichEndpointsAreAskedFor(t *testing.T) {
	flat := Addresses{}
	for rule, test := range map[string]struct {
		endpoint discoveryv1.Endpoint
		in       Addresses
		want     string // address there, empty if it is left out
		unknown  string
	}{
		"a local pod, as it is":                       {on("worker", "10.200.1.5"), hub(), "10.200.1.5", ""},
		"of any family":                               {on("worker", "fd00::5"), hub(), "fd00::5", ""},
		"not the provider's own":                      {on("milan", "10.71.2.7"), hub(), "", ""},
		"endpoints of other virtual node of provider": {on("milan-gpu", "10.71.2.7"), hub(), "", ""},
		"not even where they are shown to others":     {on("milan-gpu", "10.71.0.3"), hub(), "", ""},
		"a pod of another provider, as it is shown":   {on("turin", "10.69.0.7"), hub(), "10.70.0.9", ""},
		"one that is not shown":                       {on("turin", "10.69.0.8"), hub(), "", "10.69.0.8"},
		"a pod on the network of its node":            {on("worker", "192.0.2.4"), hub(), "", "192.0.2.4"},
		"something outside, as it is shown":           {on("", "10.69.0.7"), hub(), "10.70.0.9", ""},
		"something outside that is not shown":         {on("", "203.0.113.9"), hub(), "", "203.0.113.9"},
		"something of the provider, named by hand":    {on("", "10.71.0.3"), hub(), "10.70.0.10", ""},
		"a name":                               {on("", "db.example.com"), hub(), "", "db.example.com"},
		"where all clusters share one network": {on("worker", "203.0.113.9"), flat, "203.0.113.9", ""},
		"but not the provider's own there":     {on("milan", "203.0.113.9"), flat, "", ""},
	} {
		t.Run(rule, func(t *testing.T) {
			got, unknown := milan.ShadowEndpointSlice(sliceOf(test.endpoint), test.in)
			var have []string
			for _, e := range got.Spec.Template.Endpoints {
				have = append(have, e.Addresses...)
			}
			if fmt.Sprint(have) != fmt.Sprintf("[%s]", test.want) || fmt.Sprint(unknown) != fmt.Sprintf("[%s]", test.unknown) {
				t.Errorf("got %v without %v", have, unknown)
			}
		})
	}
}

func TestEndpointsOfOtherProviders(t *testing.T) {
	pod := func(node, address string) discoveryv1.Endpoint {
		e := on(node, address)
		e.TargetRef = &corev1.ObjectReference{Kind: "Pod", Namespace: "shop", Name: "web-0", UID: "1"}
		return e
	}
	local := sliceOf(pod("worker", "10.200.0.7"), pod("milan", "10.71.0.7"), pod("turin", "10.69.0.7"), pod("turin", "10.69.0.8"), on("", "10.69.0.8"))
	local.Annotations[names.DirectConnections] = `{"clusterAddresses":{"turin":["10.200.0.7"]}}`
	for name, test := range map[string]struct {
		direct    bool
		endpoints string
		data      string
		unknown   string
	}{
		// The IP of 10.69.0.8 is about to exist; an endpoint that is no pod has none.
		"through the consumer": {false, "rome 10.200.0.7, rome 10.70.0.9", "", "[10.69.0.8]"},
		"direct":               {true, "rome 10.200.0.7, turin 10.200.0.7, turin 10.200.0.8", `{"clusterAddresses":{"turin":["10.200.0.7","10.200.0.8"]}}`, "[10.69.0.8]"},
	} {
		t.Run(strings.ReplaceAll(name, " ", "_"), func(t *testing.T) {
			in := hub()
			in.Direct = test.direct
			got, unknown := milan.ShadowEndpointSlice(local, in)
			var endpoints []string
			for _, e := range got.Spec.Template.Endpoints {
				endpoints = append(endpoints, *e.NodeName+" "+strings.Join(e.Addresses, " "))
			}
			if diff := cmp.Diff([]string{test.endpoints, test.data, test.unknown}, []string{strings.Join(endpoints, ", "), got.Annotations[names.DirectConnections], fmt.Sprint(unknown)}); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
			claimed, err := DirectEndpoints(got)
			if err != nil || test.direct != (len(claimed["turin"]) == 2) {
				t.Errorf("read back %v: %v", claimed, err)
			}
		})
	}
}

func TestWhatIsToldOfAnEndpoint(t *testing.T) {
	full := discoveryv1.Endpoint{
		Addresses:  []string{"10.200.1.5"},
		Conditions: discoveryv1.EndpointConditions{Ready: new(false), Serving: new(true), Terminating: new(true)},
		Hostname:   new("web-0"), NodeName: new("worker"), Zone: new("a"), Hints: &discoveryv1.EndpointHints{ForZones: []discoveryv1.ForZone{{Name: "a"}}},
		TargetRef: &corev1.ObjectReference{Kind: "Pod", Namespace: "shop", Name: "web-0", UID: "1"},
	}
	local := sliceOf(full)
	got, _ := milan.ShadowEndpointSlice(local, hub())
	want := full
	want.NodeName, want.Zone, want.Hints = new("rome"), nil, nil
	want.TargetRef = &corev1.ObjectReference{Kind: "RemotePod", Namespace: "shop", Name: "web-0", UID: "1"}
	if diff := cmp.Diff([]discoveryv1.Endpoint{want}, got.Spec.Template.Endpoints); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if diff := cmp.Diff(local.Ports, got.Spec.Template.Ports); diff != "" || got.Spec.Template.AddressType != local.AddressType {
		t.Errorf("%s %s", got.Spec.Template.AddressType, diff)
	}
	labels := map[string]string{
		discoveryv1.LabelServiceName: "web", discoveryv1.LabelManagedBy: names.EndpointSliceManager,
		names.OffloadingOrigin: "rome", names.OffloadingDestination: "milan",
	}
	if diff := cmp.Diff([]any{"web-x", "shop-rome", labels, map[string]string{"a": "b"}}, []any{got.Name, got.Namespace, got.Labels, got.Annotations}); diff != "" {
		t.Errorf("metadata (-want +got):\n%s", diff)
	}
}

func TestAnEmptySliceIsASlice(t *testing.T) {
	got, unknown := milan.ShadowEndpointSlice(sliceOf(), hub())
	if len(got.Spec.Template.Endpoints)+len(unknown) != 0 || got.Spec.Template.AddressType != discoveryv1.AddressTypeIPv4 {
		t.Errorf("%+v %v", got.Spec, unknown)
	}
}

func TestWhichSlicesAreCopied(t *testing.T) {
	with := func(keys ...string) *metav1.ObjectMeta {
		out := &metav1.ObjectMeta{Annotations: map[string]string{}}
		for _, key := range keys {
			out.Annotations[key] = "true"
		}
		return out
	}
	skip, allow := names.SkipReflection, names.AllowReflection
	for rule, test := range map[string]struct {
		kind    ReflectionType
		slice   *metav1.ObjectMeta
		service metav1.Object
		want    bool
	}{
		"by default all":                          {DenyList, with(), with(), true},
		"but those of a Service that stays":       {DenyList, with(), with(skip), false},
		"the slice may come nevertheless":         {DenyList, with(allow), with(skip), true},
		"or stay alone":                           {DenyList, with(skip), with(), false},
		"what says both stays":                    {DenyList, with(skip, allow), with(allow), false},
		"of a list only those of its Services":    {AllowList, with(), with(allow), true},
		"and no others":                           {AllowList, with(), with(), false},
		"without a Service the slice decides":     {DenyList, with(), nil, true},
		"without a Service and with a list, too":  {AllowList, with(), nil, false},
		"without a Service it may be in the list": {AllowList, with(allow), nil, true},
	} {
		if got := test.kind.AllowsSlice(test.slice, test.service); got != test.want {
			t.Errorf("%s: %t", rule, got)
		}
	}
}

// Whatever a slice holds, what is asked for has only addresses that mean something to the provider and are not its own, and
// each endpoint is asked for, or on a node of the provider, or told of.
func TestEveryEndpointIsAccountedFor(t *testing.T) {
	address := rapid.Custom(func(t *rapid.T) string {
		prefix := rapid.SampledFrom([]string{"10.200", "10.71", "10.68", "10.69", "203.0"}).Draw(t, "prefix")
		return fmt.Sprintf("%s.%d.%d", prefix, rapid.IntRange(0, 1).Draw(t, "third"), rapid.IntRange(0, 9).Draw(t, "host"))
	})
	rapid.Check(t, func(t *rapid.T) {
		var endpoints []discoveryv1.Endpoint
		for range rapid.IntRange(0, 6).Draw(t, "endpoints") {
			node := rapid.SampledFrom([]string{"", "worker", "milan", "milan-2", "turin"}).Draw(t, "node")
			endpoints = append(endpoints, on(node, address.Draw(t, "address")))
		}
		in := hub()
		local := sliceOf(endpoints...)
		before := local.DeepCopy()
		got, unknown := milan.ShadowEndpointSlice(local, in)
		own := 0
		for _, e := range endpoints {
			addr := netip.MustParseAddr(e.Addresses[0])
			if e.NodeName != nil && (*e.NodeName == "milan" || in.isPeers(addr)) {
				own++
			}
		}
		if len(got.Spec.Template.Endpoints)+len(unknown)+own != len(endpoints) {
			t.Fatalf("of %d endpoints %d are asked for, %d unknown, %d there", len(endpoints), len(got.Spec.Template.Endpoints), len(unknown), own)
		}
		for _, e := range got.Spec.Template.Endpoints {
			addr := netip.MustParseAddr(e.Addresses[0])
			shown := slices.ContainsFunc([]string{"10.70.0.9", "10.70.0.10"}, func(s string) bool { return s == e.Addresses[0] })
			if !in.Pods[0].Contains(addr) && !shown || *e.NodeName != "rome" {
				t.Fatalf("%+v is asked for", e)
			}
		}
		if diff := cmp.Diff(before, local); diff != "" {
			t.Fatalf("the local slice was changed:\n%s", diff)
		}
	})
}
