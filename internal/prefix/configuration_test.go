// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package prefix_test

import (
	"net/netip"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
	"liqo.io/liqo/internal/prefix"
)

func config(pod, external string) networkingv1beta1.ClusterConfig {
	return networkingv1beta1.ClusterConfig{CIDR: networkingv1beta1.ClusterConfigCIDR{Pod: []networkingv1beta1.CIDR{networkingv1beta1.CIDR(pod)}, External: []networkingv1beta1.CIDR{networkingv1beta1.CIDR(external)}}}
}

// spec has a Configuration always had another network of pods.
func spec(pod networkingv1beta1.CIDR) func(*networkingv1beta1.Configuration) {
	return func(c *networkingv1beta1.Configuration) {
		c.Spec.Remote.CIDR.Pod[0], c.Status.ObservedRemote.CIDR.Pod[0] = pod, pod
	}
}

func cidrs(texts ...networkingv1beta1.CIDR) []networkingv1beta1.CIDR { return texts }

const none = "invalid IP"

func TestMapOfConfiguration(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*networkingv1beta1.Configuration)
		ready  bool
		fails  bool
		want   string // of 10.200.2.7
		// awaited is an address in a network that has no place yet.
		awaited string
	}{
		"complete":                         {change: func(*networkingv1beta1.Configuration) {}, ready: true, want: "10.71.2.7"},
		"with host bits":                   {change: spec("10.200.9.9/16"), ready: true, want: "10.71.2.7"},
		"nothing is said yet":              {change: func(c *networkingv1beta1.Configuration) { c.Status = networkingv1beta1.ConfigurationStatus{} }},
		"only the condition":               {change: func(c *networkingv1beta1.Configuration) { c.Status.Remote = nil }},
		"something else was changed since": {change: func(c *networkingv1beta1.Configuration) { c.Generation++ }, ready: true, want: "10.71.2.7"},
		"the network was changed since": {change: func(c *networkingv1beta1.Configuration) {
			c.Generation++
			c.Spec.Remote.CIDR.Pod[0] = "10.201.0.0/16"
		}, ready: true, want: none, awaited: "10.201.0.1"},
		"one was added since": {change: func(c *networkingv1beta1.Configuration) {
			c.Generation++
			c.Spec.Remote.CIDR.Pod = cidrs("10.201.0.0/16", "10.200.0.0/16")
		}, ready: true, want: "10.71.2.7", awaited: "10.201.0.1"},
		"one that was added has no place": {change: func(c *networkingv1beta1.Configuration) {
			c.Spec.Remote.CIDR.Pod = cidrs("10.201.0.0/16", "10.200.0.0/16")
			c.Status.Conditions[0].Status = metav1.ConditionFalse
		}, ready: true, want: "10.71.2.7", awaited: "10.201.0.1"},
		"one of several has a place": {change: func(c *networkingv1beta1.Configuration) {
			c.Spec.Remote.CIDR.Pod = cidrs("10.201.0.0/16", "10.202.0.0/16", "10.200.0.0/16")
			c.Status.ObservedRemote.CIDR.Pod, c.Status.Remote.CIDR.Pod = cidrs("10.202.0.0/16", "10.200.0.0/16"), cidrs("10.72.0.0/16", "10.71.0.0/16")
			c.Status.Conditions[0].Status = metav1.ConditionFalse
		}, ready: true, want: "10.71.2.7", awaited: "10.201.0.1"},
		"another one was removed since": {change: func(c *networkingv1beta1.Configuration) {
			c.Status.ObservedRemote.CIDR.Pod, c.Status.Remote.CIDR.Pod = cidrs("10.202.0.0/16", "10.200.0.0/16"), cidrs("10.72.0.0/16", "10.71.0.0/16")
		}, ready: true, want: "10.71.2.7"},
		"only the external one has a place": {change: func(c *networkingv1beta1.Configuration) {
			c.Status.ObservedRemote.CIDR.Pod, c.Status.Remote.CIDR.Pod = nil, nil
			c.Status.Conditions[0].Status = metav1.ConditionFalse
		}, ready: true, want: none, awaited: "10.200.2.7"},
		"none has a place": {change: func(c *networkingv1beta1.Configuration) {
			c.Status.ObservedRemote, c.Status.Remote = &networkingv1beta1.ClusterConfig{}, &networkingv1beta1.ClusterConfig{}
			c.Status.Conditions[0].Status = metav1.ConditionFalse
		}},
		"their order was changed since": {change: func(c *networkingv1beta1.Configuration) {
			c.Spec.Remote.CIDR.Pod, c.Spec.Remote.CIDR.External = c.Spec.Remote.CIDR.External, c.Spec.Remote.CIDR.Pod
		}},
		"of an earlier version": {change: func(c *networkingv1beta1.Configuration) { c.Status.ObservedRemote = nil }, ready: true, want: "10.71.2.7"},
		"of an earlier version, changed since": {change: func(c *networkingv1beta1.Configuration) {
			c.Status.ObservedRemote = nil
			c.Generation++
		}},
		"of an earlier version, a network has no place": {change: func(c *networkingv1beta1.Configuration) {
			c.Status.ObservedRemote = nil
			c.Status.Conditions[0].Status = metav1.ConditionFalse
		}},
		"of an earlier version, a kind has no place": {change: func(c *networkingv1beta1.Configuration) {
			c.Status.Remote.CIDR.External = nil
			c.Status.Conditions[0].Status = metav1.ConditionFalse
		}},
		"one network less": {change: func(c *networkingv1beta1.Configuration) { c.Status.Remote.CIDR.External = nil }, fails: true},
		"one pod network is an external one": {change: func(c *networkingv1beta1.Configuration) {
			c.Status.Remote.CIDR.Pod, c.Status.Remote.CIDR.External = nil, append(c.Status.Remote.CIDR.Pod, c.Status.Remote.CIDR.External...)
		}, fails: true},
		"a network there that is none": {change: spec("10.200.0.0"), fails: true},
		"a network here that is none":  {change: func(c *networkingv1beta1.Configuration) { c.Status.Remote.CIDR.Pod[0] = "" }, fails: true},
	} {
		t.Run(name, func(t *testing.T) {
			view := config("10.71.0.0/16", "10.68.0.0/16")
			c := &networkingv1beta1.Configuration{ObjectMeta: metav1.ObjectMeta{Generation: 3}}
			c.Spec.Remote = config("10.200.0.0/16", "10.70.0.0/16")
			c.Status = networkingv1beta1.ConfigurationStatus{Remote: &view, ObservedRemote: c.Spec.Remote.DeepCopy(), Conditions: []metav1.Condition{{
				Type: networkingv1beta1.ConditionNetworkCIDRsConfigured, Status: metav1.ConditionTrue, ObservedGeneration: 3,
			}}}
			test.change(c)
			m, ready, err := prefix.Of(c)
			if ready != test.ready || (err != nil) != test.fails {
				t.Fatalf("ready %t, %v; want %t", ready, err, test.ready)
			}
			if !ready {
				return
			}
			if got, _ := m.ToLocal(netip.MustParseAddr("10.200.2.7")); got.String() != test.want {
				t.Errorf("got %s, want %s", got, test.want)
			}
			for _, text := range []string{"10.200.2.7", "10.201.0.1", "10.70.0.1"} {
				if m.IsAwaited(netip.MustParseAddr(text)) != (text == test.awaited) {
					t.Errorf("%s: awaited is %q", text, test.awaited)
				}
			}
			if kept := m.KeepPairs(m); !kept.Equal(m) {
				t.Error("a map that keeps its own pairs is another one")
			}
			again, _, _ := prefix.Of(c)
			c.Status.Remote.CIDR.External[0] = "10.69.0.0/16"
			if other, _, _ := prefix.Of(c); !m.Equal(again) || m.Equal(other) {
				t.Error("equal maps differ, or different ones are equal")
			}
		})
	}
}
