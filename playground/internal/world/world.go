// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

// Package world creates the network between the nodes of all clusters: a bridge in a network namespace without an uplink. A veth pair connects
// the machine to it; connections are only possible from the machine.
package world

import (
	"fmt"

	"liqo.io/liqo/playground/internal/netns"
	"liqo.io/liqo/playground/internal/spec"
)

// Up creates or repairs the world network and its link to the machine.
func Up(w spec.World) error {
	if err := netns.Apply(w.Netns(), NetworkConfig(w)); err != nil {
		return fmt.Errorf("creating the world network: %w", err)
	}
	for _, line := range HostCommands(w) {
		if err := netns.Run("", line); err != nil {
			return fmt.Errorf("connecting the machine to the world network (set LIQO_PLAYGROUND_NETWORK if the machine uses this network): %w", err)
		}
	}
	return nil
}

// NetworkConfig returns the configuration of the world's network namespace.
func NetworkConfig(w spec.World) netns.Config {
	commands := []string{
		"ip link set lo up",
		"ip link add " + spec.Bridge + " type bridge",
		"ip link set " + spec.Bridge + " up",
		"ip link add host0 type veth peer name " + w.HostLink() + " netns 1",
		"ip link set host0 up",
	}
	gateway4, gateway6 := w.Gateway()
	host4, host6 := w.HostAddresses()
	world4, world6 := w.WorldAddresses()
	commands = append(commands,
		fmt.Sprintf("ip addr replace %s/%d dev %s", gateway4, w.IPv4.Bits(), spec.Bridge),
		fmt.Sprintf("ip addr replace %s peer %s/32 dev host0", world4, host4))
	if w.HasIPv6() {
		commands = append(commands,
			fmt.Sprintf("ip addr replace %s/%d dev %s nodad", gateway6, w.IPv6.Bits(), spec.Bridge),
			fmt.Sprintf("ip addr replace %s peer %s/128 dev host0 nodad", world6, host6))
	}
	return netns.Config{
		Sysctl: []string{
			"net/ipv4/ip_forward=1", // only for packets of the machine, see nftablesRules
			"-net/ipv6/conf/all/forwarding=1",
			"-net/ipv6/conf/default/accept_dad=0",
			"-net/bridge/bridge-nf-call-iptables=0",
			"-net/bridge/bridge-nf-call-ip6tables=0",
			"-net/bridge/bridge-nf-call-arptables=0",
		},
		Commands: commands,
		Nftables: nftablesRules(w),
	}
}

// nftablesRules accept connections of the machine, with the address of the bridge as the source. Other packets are not forwarded: nodes
// receive an ICMP error.
func nftablesRules(w spec.World) string {
	host4, host6 := w.HostAddresses()
	masquerade := fmt.Sprintf("ip saddr %s oifname %q masquerade", host4, spec.Bridge)
	if w.HasIPv6() {
		masquerade += fmt.Sprintf("\n\t\tip6 saddr %s oifname %q masquerade", host6, spec.Bridge)
	}
	return fmt.Sprintf(`table inet playground
delete table inet playground
table inet playground {
	chain forward {
		type filter hook forward priority filter; policy drop;
		ct state established,related accept
		iifname "host0" oifname %q accept
		reject
	}
	chain postrouting {
		type nat hook postrouting priority srcnat;
		%s
	}
}
`, spec.Bridge, masquerade)
}

// HostCommands returns the commands that configure the machine's end of the link: an address and a route per family.
func HostCommands(w spec.World) []string {
	host4, host6 := w.HostAddresses()
	world4, world6 := w.WorldAddresses()
	lines := []string{
		"ip link set " + w.HostLink() + " up",
		fmt.Sprintf("ip addr replace %s peer %s/32 dev %s", host4, world4, w.HostLink()),
		fmt.Sprintf("ip route replace %s via %s dev %s onlink", w.IPv4, world4, w.HostLink()),
	}
	if w.HasIPv6() {
		lines = append(lines,
			fmt.Sprintf("ip addr replace %s peer %s/128 dev %s nodad", host6, world6, w.HostLink()),
			fmt.Sprintf("ip route replace %s via %s dev %s onlink", w.IPv6, world6, w.HostLink()))
	}
	return lines
}

// Down removes the world network. The link is removed first: the kernel removes a namespace asynchronously, when a new `up` may already
// create a link of the same name.
func Down(w spec.World) error {
	if err := netns.Unlink("", w.HostLink()); err != nil {
		return err
	}
	return netns.Remove(w.Netns())
}
