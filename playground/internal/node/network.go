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

// Network returns the configuration of a node's network namespace.
func Network(c spec.Cluster, n spec.Node) netns.Config {
	commands := uplinkCommands(c, n)
	switch {
	case c.CNI == spec.Overlay:
		commands = append(commands, overlayCommands(c, n)...)
	case !c.CNI.RunsInPods():
		commands = append(commands, routeCommands(c, n)...)
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
		Nftables: nftablesRules(c),
	}
}

// RemoveOldAddresses removes the addresses that a node had before it was moved. Connect adds the new ones.
func RemoveOldAddresses(before, c spec.Cluster, node string) error {
	for i, n := range before.Nodes() {
		if n.Name != node {
			continue
		}
		ns := c.World.NodeNetns(node)
		if err := netns.Unlink(ns, overlayLink); err != nil {
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
			if err := netns.Run(ns, fmt.Sprintf("ip addr del %s/%d dev eth0", a, bits)); err != nil {
				return fmt.Errorf("removing address %s from node %s: %w", a, node, err)
			}
		}
	}
	return nil
}

// AttachCommands returns the commands that attach a node to the bridge of the world network.
func AttachCommands(n spec.Node) []string {
	return []string{fmt.Sprintf("ip link set %s master %s up", n.Name, spec.Bridge)}
}

// uplinkCommands returns the commands that connect a node to the world network. The default route leads to the address of the bridge, which
// forwards no packets.
func uplinkCommands(c spec.Cluster, n spec.Node) []string {
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

// routeCommands returns the routes to pods of the other nodes of the cluster.
func routeCommands(c spec.Cluster, n spec.Node) []string {
	var lines []string
	for _, peer := range otherNodes(c, n) {
		for i, p := range peer.PodCIDRs {
			lines = append(lines, fmt.Sprintf("ip route replace %s via %s", p, peer.Addresses[i]))
		}
	}
	return lines
}

// overlayCommands returns the commands of an overlay like flannel's: a VXLAN device with permanent neighbours instead of learning.
func overlayCommands(c spec.Cluster, n spec.Node) []string {
	lines := []string{fmt.Sprintf("ip link add %s address %s mtu %d type vxlan id %d local %s dev eth0 dstport 8472 nolearning",
		overlayLink, overlayMAC(c, n), overlayMTU(c), c.Index(), n.Addresses[0])}
	for _, p := range n.PodCIDRs {
		lines = append(lines, strings.TrimSuffix(fmt.Sprintf("ip addr replace %s/%d dev %s%s", p.Addr(), p.Addr().BitLen(), overlayLink, nodadSuffix(p)), " "))
	}
	lines = append(lines, "ip link set "+overlayLink+" up")
	for _, peer := range otherNodes(c, n) {
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

func nodadSuffix(p netip.Prefix) string {
	if p.Addr().Is6() {
		return " nodad"
	}
	return ""
}

// overlayMTU returns the MTU of pods, less the outer headers.
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

func otherNodes(c spec.Cluster, n spec.Node) []spec.Node {
	var peers []spec.Node
	for _, peer := range c.Nodes() {
		if peer.Name != n.Name {
			peers = append(peers, peer)
		}
	}
	return peers
}

// nftablesRules masquerade traffic of pods that leaves the pod network or the cluster, unless the CNI runs in pods, and drop and count packets of
// no connection, like firewalls and kube-proxy with iptables.
func nftablesRules(c spec.Cluster) string {
	var masquerade strings.Builder
	nodes := c.NodeCIDRs()
	for i, pods := range c.PodCIDRs() {
		family := "ip"
		if pods.Addr().Is6() {
			family = "ip6"
		}
		excluded := pods.String()
		if c.CNI == spec.Plain {
			excluded = fmt.Sprintf("{ %s, %s }", pods, nodes[i])
		}
		if c.CNI.RunsInPods() {
			continue
		}
		fmt.Fprintf(&masquerade, "\t\t%s saddr %s %s daddr != %s oifname \"eth0\" masquerade\n", family, pods, family, excluded)
	}
	return fmt.Sprintf(`table inet playground
delete table inet playground
table inet playground {
	set invalid {
		type ipv4_addr . ipv4_addr . inet_proto . inet_service . inet_service
		size 1024
		flags dynamic
		counter
	}
	chain forward {
		type filter hook forward priority filter;
		ct state invalid update @invalid { ip saddr . ip daddr . meta l4proto . th sport . th dport }
		ct state invalid counter drop
	}
	chain postrouting {
		type nat hook postrouting priority srcnat + 10;
%s	}
}
`, masquerade.String())
}
