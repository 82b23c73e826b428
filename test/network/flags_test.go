// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package network

import (
	"encoding/binary"
	"net/netip"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"

	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
	"liqo.io/liqo/test/clusters"
)

// The client dials the address and the port that peer was asked for, of a load balancer and of a node, in either cluster.
func TestServerAddressFlags(t *testing.T) {
	t.Cleanup(func() {
		if err := unpeer(a, b, "--delete-namespaces"); err != nil {
			t.Error(err)
		}
	})
	node, here := lastNode(t, b), lastNode(t, a)
	given := node.As4()
	given[3] = 240 // the load balancers of the playground give it to who asks for it
	balancer := netip.AddrFrom4(given)
	for i, way := range []struct {
		to    netip.AddrPort
		flags []string
	}{
		{netip.AddrPortFrom(balancer, 51999), []string{"--gw-server-service-loadbalancerip", balancer.String(), "--gw-server-service-port", "51999"}},
		{netip.AddrPortFrom(node, 31840), []string{"--gw-server-service-type", "NodePort", "--gw-server-service-nodeport", "31840", "--gw-client-address", node.String(), "--gw-client-port", "31840"}},
		{netip.AddrPortFrom(here, 31841), []string{"--gw-server-service-location", "Consumer", "--gw-server-service-type", "NodePort", "--gw-server-service-nodeport", "31841",
			"--gw-client-address", here.String(), "--gw-client-port", "31841"}},
	} {
		captured := capture(t)
		if out, err := a.Say(append([]string{"peer", "--remote-kubeconfig", b.Kubeconfig, "--create-resource-slice=false"}, way.flags...)...); err != nil {
			show(t)
			t.Fatal(err, out)
		}
		if !slices.ContainsFunc(captured(), func(frame []byte) bool { return dialed(frame) == way.to }) {
			t.Errorf("peer %v connected the clusters, and not by %s", way.flags, way.to)
		}
		if i == 0 {
			changed(t, way.flags)
		}
		if err := unpeer(a, b); err != nil {
			t.Fatal(err)
		}
	}
}

// changed gives other flags to gateways that run. The command is done when the tunnel of these is there, and not when it sees that of before.
func changed(t *testing.T, flags []string) {
	t.Helper()
	out, err := a.Say(append([]string{"network", "connect", "--remote-kubeconfig", b.Kubeconfig, "--mtu", "1300"}, flags...)...)
	if err != nil {
		show(t)
		t.Fatal(err, out)
	}
	for _, c := range []*clusters.Cluster{a, b} {
		var connections networkingv1beta1.ConnectionList
		if err := c.Client.List(t.Context(), &connections); err != nil {
			t.Fatal(err)
		}
		if n := len(connections.Items); n != 1 || connections.Items[0].Status.MTU != 1300 || c == a && connections.Items[0].Status.Value != networkingv1beta1.Connected {
			t.Errorf("%s: the connections are %+v", c.ID, connections.Items)
		}
	}
}

func lastNode(t *testing.T, c *clusters.Cluster) netip.Addr {
	t.Helper()
	var nodes corev1.NodeList
	if err := c.Client.List(t.Context(), &nodes); err != nil {
		t.Fatal(err)
	}
	return address(t, nodes.Items[len(nodes.Items)-1])
}

// dialed is where a frame of UDP goes.
func dialed(frame []byte) (to netip.AddrPort) {
	const head, udp = 14, 17
	if len(frame) < head+28 || binary.BigEndian.Uint16(frame[12:]) != 0x0800 || frame[head+9] != udp {
		return to
	}
	ports := frame[min(head+4*int(frame[head]&0xf), len(frame)):]
	if len(ports) < 4 {
		return to
	}
	return netip.AddrPortFrom(netip.AddrFrom4([4]byte(frame[head+16:])), binary.BigEndian.Uint16(ports[2:]))
}
