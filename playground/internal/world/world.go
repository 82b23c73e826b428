// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

// Package world is the network between the nodes of all clusters: a bridge in a network namespace without an uplink.
// The machine reaches into it through one cable; nothing comes out.
package world

import (
	"fmt"

	"liqo.io/liqo/playground/internal/netns"
	"liqo.io/liqo/playground/internal/spec"
)

// Up makes the world and the cable, or repairs them.
func Up(w spec.World) error {
	if err := netns.Apply(w.Netns(), Inside(w)); err != nil {
		return fmt.Errorf("making the world network: %w", err)
	}
	for _, line := range Cable(w) {
		if err := netns.Run("", line); err != nil {
			return fmt.Errorf("connecting the machine to the world network (another network? set LIQO_PLAYGROUND_NETWORK): %w", err)
		}
	}
	return nil
}

// Inside is the world's own configuration.
func Inside(w spec.World) netns.Config {
	commands := []string{
		"ip link set lo up",
		"ip link add " + spec.Bridge + " type bridge",
		"ip link set " + spec.Bridge + " up",
		"ip link add host0 type veth peer name " + w.HostLink() + " netns 1",
		"ip link set host0 up",
	}
	gateway4, gateway6 := w.Gateway()
	host4, host6 := w.HostSide()
	world4, world6 := w.WorldSide()
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
			"net/ipv4/ip_forward=1", // for the machine's packets only, see the rules
			"-net/ipv6/conf/all/forwarding=1",
			"-net/ipv6/conf/default/accept_dad=0",
			"-net/bridge/bridge-nf-call-iptables=0",
			"-net/bridge/bridge-nf-call-ip6tables=0",
			"-net/bridge/bridge-nf-call-arptables=0",
		},
		Commands: commands,
		Nftables: rules(w),
	}
}

// rules let the machine in, hidden behind the world's own address, and answers back. Nothing else is forwarded:
// a node that sends to any other address gets told at once.
func rules(w spec.World) string {
	host4, host6 := w.HostSide()
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

// Cable is the machine's end: one interface, one route per family.
func Cable(w spec.World) []string {
	host4, host6 := w.HostSide()
	world4, world6 := w.WorldSide()
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

// Down removes the world. The cable is removed first: the kernel takes a namespace apart later, when a new `up` may
// already want the same names.
func Down(w spec.World) error {
	if err := netns.Unlink("", w.HostLink()); err != nil {
		return err
	}
	return netns.Remove(w.Netns())
}
