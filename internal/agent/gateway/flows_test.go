// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"context"
	"errors"
	"fmt"
	"net"
	"testing"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	ipamv1alpha1 "liqo.io/liqo/api/ipam/v1alpha1"
	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
	"liqo.io/liqo/api/networking/v1beta1/firewall"
	"liqo.io/liqo/internal/names"
	"liqo.io/liqo/internal/testkit"
)

// own gives the cluster of a side its networks.
func (s *testGateway) own(t *testing.T) {
	t.Helper()
	for kind, cidr := range map[string]networkingv1beta1.CIDR{names.NetworkTypePod: "10.200.0.0/16", names.NetworkTypeExternal: "10.70.0.0/16"} {
		n := &ipamv1alpha1.Network{ObjectMeta: metav1.ObjectMeta{Namespace: s.options.LiqoNamespace, Name: kind, Labels: map[string]string{names.NetworkType: kind}}}
		n.Spec.CIDR = cidr
		testkit.Create(t, s, n)
		testkit.UpdateStatus(t, s, n, func(n *ipamv1alpha1.Network) { n.Status.CIDR = cidr })
	}
}

// addAlias gives a pod an alias. It is taken back with the returned function.
func (s *testGateway) addAlias(t *testing.T, name string, pod, alias networkingv1beta1.IP) (stop func()) {
	t.Helper()
	ip := &ipamv1alpha1.IP{ObjectMeta: metav1.ObjectMeta{Namespace: s.options.Namespace, Name: name}, Spec: ipamv1alpha1.IPSpec{IP: pod}}
	testkit.Create(t, s, ip)
	stop = func() { _ = client.IgnoreNotFound(s.Delete(context.Background(), ip)) }
	t.Cleanup(stop) // gateways of other tests see it, too
	testkit.UpdateStatus(t, s, ip, func(ip *ipamv1alpha1.IP) { ip.Status.IP, ip.Status.CIDR = alias, "10.70.0.0/16" })
	return stop
}

// flow begins one from the peer to an address, as it was translated to that of a pod.
func (s *testGateway) flow(t *testing.T, to, pod string) {
	t.Helper()
	from := net.IPv4(10, 71, 0, 9).To4()
	err := s.space.ConntrackCreate(netlink.ConntrackTable, unix.AF_INET, &netlink.ConntrackFlow{
		FamilyType: unix.AF_INET, TimeOut: 600,
		Forward: netlink.IPTuple{SrcIP: from, DstIP: net.ParseIP(to).To4(), SrcPort: 5000, DstPort: 80, Protocol: unix.IPPROTO_UDP},
		Reverse: netlink.IPTuple{SrcIP: net.ParseIP(pod).To4(), DstIP: from, SrcPort: 80, DstPort: 5000, Protocol: unix.IPPROTO_UDP},
	})
	if err != nil {
		t.Fatal(err)
	}
}

// flows waits for the flows from the peer to go on to these addresses and to no others.
func (s *testGateway) flows(t *testing.T, want ...string) {
	t.Helper()
	testkit.Eventually(t, patience, func() error {
		all, err := s.space.ConntrackTableList(netlink.ConntrackTable, unix.AF_INET)
		if err != nil {
			return err
		}
		got := map[string]bool{}
		for _, f := range all {
			if f.Forward.SrcIP.Equal(net.IPv4(10, 71, 0, 9)) {
				got[f.Forward.DstIP.String()] = true
			}
		}
		for _, to := range want {
			if !got[to] {
				return fmt.Errorf("flows go on to %v, want %v", got, want)
			}
		}
		if len(got) != len(want) {
			return fmt.Errorf("flows go on to %v, want %v", got, want)
		}
		return nil
	})
}

func TestFlowsAfterTranslationChange(t *testing.T) {
	s, other := newTestGateways(t)
	s.own(t)
	stop := s.addAlias(t, "first", "10.200.1.5", "10.70.0.22")
	s.addAlias(t, "stays", "10.200.1.7", "10.70.0.23")
	wall := &networkingv1beta1.FirewallConfiguration{ObjectMeta: s.meta("users")}
	wall.Labels = map[string]string{names.FirewallCategory: names.TargetGateway, names.FirewallUnique: s.options.RemoteClusterID}
	wall.Spec.Table = firewall.Table{Name: new("users"), Family: new(firewall.TableFamilyIPv4), Chains: []firewall.Chain{{
		Name: new("to"), Type: firewall.ChainTypeNAT, Policy: new(firewall.ChainPolicyAccept), Hook: new(firewall.ChainHookPrerouting),
		Priority: new(firewall.ChainPriorityNATDest), Rules: firewall.RulesSet{NatRules: []firewall.NatRule{{
			Name: new("one"), NatType: firewall.NatTypeDestination, To: new("10.200.1.4"),
			Match: []firewall.Match{{Op: firewall.MatchOperationEq, IP: &firewall.MatchIP{Value: "10.70.0.40-10.70.0.41", Position: firewall.MatchPositionDst}}},
		}}},
	}}}
	testkit.Create(t, s, wall)
	s.trust(t, "peer", other)
	s.run(t)
	s.is(t, connecting, broken) // the first run came to its end
	for _, text := range []string{"10.70.0.22 : 10.200.1.5", "10.70.0.40/31 dnat to 10.200.1.4"} {
		testkit.Eventually(t, patience, func() error { return s.holds(text) })
	}
	s.flow(t, "10.70.0.22", "10.200.1.5")
	s.flow(t, "10.70.0.23", "10.200.1.7")
	s.flow(t, "10.70.0.41", "10.200.1.4")

	t.Log("the alias is given to another pod")
	stop()
	s.addAlias(t, "second", "10.200.1.6", "10.70.0.22")
	testkit.Eventually(t, patience, func() error { return s.holds("10.70.0.22 : 10.200.1.6") })
	s.flows(t, "10.70.0.23", "10.70.0.41")

	t.Log("a user translates to another pod")
	testkit.Update(t, s, wall, func(w *networkingv1beta1.FirewallConfiguration) {
		w.Spec.Table.Chains[0].Rules.NatRules[0].To = new("10.200.1.6")
	})
	testkit.Eventually(t, patience, func() error { return s.holds("dnat to 10.200.1.6") })
	s.flows(t, "10.70.0.23")
}

// The tunnel and its flows survive a network that is added to the peer, whether or not it has a prefix.
func TestGatewayAddedNetwork(t *testing.T) {
	a, b := newTestGateways(t)
	a.own(t)
	a.addAlias(t, "stays", "10.200.1.7", "10.70.0.23")
	connectGateways(t, a, b)
	testkit.Eventually(t, patience, func() error { return a.holds("10.70.0.23 : 10.200.1.7") })
	a.flow(t, "10.70.0.23", "10.200.1.7")
	before, err := a.device.Observe()
	if err != nil || len(before.Peers) != 1 {
		t.Fatalf("the device has %+v, %v", before, err)
	}
	type cidrs = []networkingv1beta1.CIDR
	c := &networkingv1beta1.Configuration{ObjectMeta: a.meta("peer")}
	change := func(spec ...networkingv1beta1.CIDR) {
		t.Helper()
		testkit.Update(t, a, c, func(c *networkingv1beta1.Configuration) { c.Spec.Remote.CIDR.Pod = spec })
	}
	has := func(prefix networkingv1beta1.CIDR) error { return a.holds("ip saddr set prefix " + string(prefix)) }
	place := func(remote, local cidrs, is metav1.ConditionStatus) {
		t.Helper()
		testkit.UpdateStatus(t, a, c, func(c *networkingv1beta1.Configuration) {
			c.Status.ObservedRemote = c.Spec.Remote.DeepCopy()
			c.Status.ObservedRemote.CIDR.Pod, c.Status.Remote.CIDR.Pod, c.Status.Conditions[0].Status = remote, local, is
		})
		for _, prefix := range local {
			testkit.Eventually(t, patience, func() error { return has(prefix) })
		}
	}
	place(cidrs{"10.200.0.0/16"}, cidrs{"10.71.0.0/16"}, metav1.ConditionTrue)
	change("10.202.0.0/16", "10.200.0.0/16")
	place(cidrs{"10.202.0.0/16", "10.200.0.0/16"}, cidrs{"10.74.0.0/16", "10.71.0.0/16"}, metav1.ConditionTrue)
	change("10.9.0.0/16", "10.201.0.0/16", "10.200.0.0/16")
	testkit.Eventually(t, patience, func() error {
		if has("10.74.0.0/16") == nil { // with the old status alone a removed network tells that the gateway has the new spec
			return errors.New("the removed network is still there")
		}
		return has("10.71.0.0/16")
	})
	place(cidrs{"10.201.0.0/16", "10.200.0.0/16"}, cidrs{"10.72.0.0/16", "10.71.0.0/16"}, metav1.ConditionFalse)
	place(cidrs{"10.9.0.0/16", "10.201.0.0/16", "10.200.0.0/16"}, cidrs{"10.73.0.0/16", "10.72.0.0/16", "10.71.0.0/16"}, metav1.ConditionTrue)
	a.flows(t, "10.70.0.23")
	after, err := a.device.Observe()
	if err != nil || len(after.Peers) != 1 || after.Peers[0].Received < before.Peers[0].Received || after.Peers[0].LastHandshake.Before(before.Peers[0].LastHandshake) {
		t.Errorf("the peer was removed meanwhile: %+v (%v), before %+v", after.Peers, err, before.Peers)
	}
}
