// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package network

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"

	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
	"liqo.io/liqo/internal/names"
	"liqo.io/liqo/test/clusters"
	"liqo.io/liqo/test/story"
)

// Each end of the tunnel is found under an address of a pod of its cluster, as the other one sees that: packets of the tunnel do not take
// the tunnel. It is so where pods and nodes share a network that both clusters know; here nodes in between translate.
func TestTunnelNotRecursive(t *testing.T) {
	tunnel := connect(t)
	server := newTestCluster(t, b, a)
	host := server.nodes[slices.IndexFunc(server.nodes, func(n corev1.Node) bool { return n.Name == server.gateway.Spec.NodeName })]
	there := seen(t, a, b.ID)(podAddress(host, 251).String()).String()
	clients := nodes(t, a)
	translate(t, host.Name, "prerouting", -110, fmt.Sprintf("ip daddr %s udp dport %d counter dnat to %s", there, names.TunnelPort, server.gateway.Status.PodIP))
	for _, n := range clients { // the gateway may be on any of them then
		from := seen(t, b, a.ID)(podAddress(n, 251).String()).String()
		route(t, n.Name, there, address(t, host))
		translate(t, n.Name, "postrouting", 90, fmt.Sprintf("ip daddr %s counter snat to %s", there, from))
		route(t, host.Name, from, address(t, n))
	}
	for _, n := range nodes(t, b) { // the ways of before
		dropEndpoint(t, n.Name, theServer(t, tunnel).Status.Endpoint)
	}
	ends := map[*clusters.Cluster]string{a: "gw-client", b: "gw-server"}
	for c, name := range ends {
		eventually(t, "the Connection "+name+" to be lost", func(context.Context) error {
			out, err := c.Kubectl("", "get", "connection", "-n", where, name, "-o", "jsonpath={.status.value}")
			if err == nil && out == string(networkingv1beta1.Connected) {
				err = errors.New("it is not")
			}
			return err
		})
	}
	kubectl(t, a, "", "patch", "gatewayclient", "-n", where, "client", "--type", "merge", "-p",
		fmt.Sprintf(`{"spec": {"endpoint": {"addresses": [%q], "port": %d}}}`, there, names.TunnelPort))
	for c, name := range ends {
		connectionIs(t, c, name, networkingv1beta1.ConnectionStatus{Value: networkingv1beta1.Connected})
	}
	for _, n := range clients {
		reaches(t, a, n.Name, b.ID, networkingv1beta1.Connected)
	}
}

// route has a node send packets to an address by another node.
func route(t *testing.T, node, to string, by netip.Addr) {
	t.Helper()
	t.Cleanup(func() { _ = story.Playground("exec", node, "ip", "route", "del", to) }) // it may be gone
	if err := story.Playground("exec", node, "ip", "route", "replace", to, "via", by.String()); err != nil {
		t.Fatal(err)
	}
}

// translate has a node translate packets before anybody else does.
func translate(t *testing.T, node, hook string, priority int, rule string) {
	t.Helper()
	t.Cleanup(func() { _ = nft(node, "delete", "table", "ip", "between") }) // it may be gone
	for _, words := range [][]string{
		{"add", "table", "ip", "between"},
		{"add", "chain", "ip", "between", hook, fmt.Sprintf("{ type nat hook %s priority %d ; }", hook, priority)},
		{"add", "rule", "ip", "between", hook, rule},
	} {
		if err := nft(node, words...); err != nil {
			t.Fatal(err)
		}
	}
}
