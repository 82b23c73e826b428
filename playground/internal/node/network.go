// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"fmt"
	"net/netip"
	"strings"

	"liqo.io/liqo/playground/internal/netns"
	"liqo.io/liqo/playground/internal/spec"
)

// overlayLink is the VXLAN device of --cni overlay.
const overlayLink = "vxlan0"

// Network is the whole configuration of a node's network namespace.
func Network(c spec.Cluster, n spec.Node) netns.Config {
	commands := uplink(c, n)
	if c.CNI == spec.Overlay {
		commands = append(commands, overlay(c, n)...)
	} else {
		commands = append(commands, routes(c, n)...)
	}
	return netns.Config{
		Sysctl: []string{
			"net/ipv4/ip_forward=1",
			"net/ipv4/conf/all/rp_filter=1", // strict, as distributions set it
			"net/ipv4/conf/default/rp_filter=1",
			"-net/ipv6/conf/all/forwarding=1",
			"-net/ipv6/conf/all/accept_ra=0",
			"-net/ipv6/conf/default/accept_dad=0",
			"-net/bridge/bridge-nf-call-iptables=1",
			"-net/bridge/bridge-nf-call-ip6tables=1",
		},
		Commands: commands,
		Nftables: rules(c),
	}
}

// Move takes a node off its address: the addresses that its cluster now says it has, and all that follows from them, are for Connect.
func Move(left, c spec.Cluster, node string) error {
	for i, n := range left.Nodes() {
		if n.Name != node {
			continue
		}
		at := c.World.NodeNetns(node)
		if err := netns.Unlink(at, overlayLink); err != nil {
			return err
		}
		for j, a := range n.Addresses {
			if a == c.Nodes()[i].Addresses[j] {
				continue
			}
			bits := c.World.IPv4.Bits()
			if a.Is6() {
				bits = c.World.IPv6.Bits()
			}
			if err := netns.Run(at, fmt.Sprintf("ip addr del %s/%d dev eth0", a, bits)); err != nil {
				return fmt.Errorf("taking %s from node %s: %w", a, node, err)
			}
		}
	}
	return nil
}

// Plug is what the world's side of the cable needs.
func Plug(n spec.Node) []string {
	return []string{fmt.Sprintf("ip link set %s master %s up", n.Name, spec.Bridge)}
}

// uplink is the cable into the world. The default route leads to the world's own address, which forwards nothing.
func uplink(c spec.Cluster, n spec.Node) []string {
	lines := []string{
		"ip link set lo up",
		fmt.Sprintf("ip link add eth0 type veth peer name %s netns %s", n.Name, c.World.Netns()),
	}
	gateway4, gateway6 := c.World.Gateway()
	for _, a := range n.Addresses {
		if a.Is4() {
			lines = append(lines, fmt.Sprintf("ip addr replace %s/%d dev eth0", a, c.World.IPv4.Bits()))
		} else {
			lines = append(lines, fmt.Sprintf("ip addr replace %s/%d dev eth0 nodad", a, c.World.IPv6.Bits()))
		}
	}
	lines = append(lines, "ip link set eth0 up")
	for _, a := range n.Addresses {
		if a.Is4() {
			lines = append(lines, fmt.Sprintf("ip route replace default via %s", gateway4))
		} else {
			lines = append(lines, fmt.Sprintf("ip -6 route replace default via %s", gateway6))
		}
	}
	return lines
}

// routes lead to the pods of the other nodes of the cluster, over the world.
func routes(c spec.Cluster, n spec.Node) []string {
	var lines []string
	for _, peer := range others(c, n) {
		for i, p := range peer.PodCIDRs {
			lines = append(lines, fmt.Sprintf("ip route replace %s via %s", p, peer.Addresses[i]))
		}
	}
	return lines
}

// overlay does what flannel does: one VXLAN device, with permanent neighbours instead of learning.
func overlay(c spec.Cluster, n spec.Node) []string {
	lines := []string{fmt.Sprintf("ip link add %s address %s mtu %d type vxlan id %d local %s dev eth0 dstport 8472 nolearning",
		overlayLink, overlayMAC(c, n), overlayMTU(c), c.Index(), n.Addresses[0])}
	for _, p := range n.PodCIDRs {
		lines = append(lines, strings.TrimSuffix(fmt.Sprintf("ip addr replace %s/%d dev %s%s", p.Addr(), p.Addr().BitLen(), overlayLink, nodad(p)), " "))
	}
	lines = append(lines, "ip link set "+overlayLink+" up")
	for _, peer := range others(c, n) {
		mac := overlayMAC(c, peer)
		lines = append(lines, fmt.Sprintf("bridge fdb replace %s dev %s dst %s", mac, overlayLink, peer.Addresses[0]))
		for _, p := range peer.PodCIDRs {
			lines = append(lines,
				fmt.Sprintf("ip neigh replace %s lladdr %s dev %s nud permanent", p.Addr(), mac, overlayLink),
				fmt.Sprintf("ip route replace %s via %s dev %s onlink", p, p.Addr(), overlayLink))
		}
	}
	return lines
}

func nodad(p netip.Prefix) string {
	if p.Addr().Is6() {
		return " nodad"
	}
	return ""
}

// overlayMTU leaves room for the outer headers.
func overlayMTU(c spec.Cluster) int {
	if c.Family == spec.IPv6 {
		return 1430
	}
	return 1450
}

func overlayMAC(c spec.Cluster, n spec.Node) string {
	b := n.PodCIDRs[0].Addr().AsSlice()
	j := b[2]
	if n.PodCIDRs[0].Addr().Is6() {
		j = b[7]
	}
	return fmt.Sprintf("02:00:00:00:%02x:%02x", c.Index(), j)
}

func others(c spec.Cluster, n spec.Node) []spec.Node {
	var peers []spec.Node
	for _, peer := range c.Nodes() {
		if peer.Name != n.Name {
			peers = append(peers, peer)
		}
	}
	return peers
}

// rules hide pods from whatever must not see their addresses, and drop what belongs to no flow, as firewalls and kube-proxy with
// iptables do; how much that was is counted.
func rules(c spec.Cluster) string {
	var hide strings.Builder
	nodes := c.NodeCIDRs()
	for i, pods := range c.PodCIDRs() {
		family := "ip"
		if pods.Addr().Is6() {
			family = "ip6"
		}
		seen := pods.String()
		if c.CNI == spec.Plain {
			seen = fmt.Sprintf("{ %s, %s }", pods, nodes[i])
		}
		fmt.Fprintf(&hide, "\t\t%s saddr %s %s daddr != %s oifname \"eth0\" masquerade\n", family, pods, family, seen)
	}
	return fmt.Sprintf(`table inet playground
delete table inet playground
table inet playground {
	chain forward {
		type filter hook forward priority filter;
		ct state invalid counter drop
	}
	chain postrouting {
		type nat hook postrouting priority srcnat + 10;
%s	}
}
`, hide.String())
}
