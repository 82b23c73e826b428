// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package spec

import (
	"fmt"
	"net/netip"
	"regexp"
)

// World is the network between all nodes of all clusters. It has no uplink: no packet leaves the machine.
type World struct {
	Name string       `json:"name"` // prefix of the playground's namespaces, links and cgroups
	IPv4 netip.Prefix `json:"ipv4"` // a /16
	IPv6 netip.Prefix `json:"ipv6"` // a /64, or the zero value if the kernel does not support IPv6
}

// Bridge is the name of the bridge in the world's network namespace.
const Bridge = "world0"

var worldName = regexp.MustCompile("^[a-z][a-z0-9-]{0,8}$")

// NewWorld validates a name and an IPv4 network. Two playgrounds on one machine need different names and networks.
func NewWorld(name, network string) (World, error) {
	p, err := netip.ParsePrefix(network)
	if err != nil || !p.Addr().Is4() || p.Bits() != 16 || p.Masked() != p {
		return World{}, fmt.Errorf("invalid world network %q: must be an IPv4 /16", network)
	}
	if !worldName.MatchString(name) {
		return World{}, fmt.Errorf("invalid name of the playground %q: must be at most 9 letters, digits and dashes", name)
	}
	b := p.Addr().As4()
	v6 := netip.AddrFrom16([16]byte{0xfd, 0, b[0], b[1]})
	return World{Name: name, IPv4: p, IPv6: netip.PrefixFrom(v6, 64)}, nil
}

// HasIPv6 reports whether the kernel supports IPv6.
func (w World) HasIPv6() bool { return w.IPv6.IsValid() }

// Netns returns the name of the world's network namespace, NodeNetns of a node's.
func (w World) Netns() string                { return w.Name + "-world" }
func (w World) NodeNetns(node string) string { return w.Name + "-" + node }

// HostLink returns the name of the machine's interface to the world network.
func (w World) HostLink() string { return w.Name }

// Cgroup returns the cgroup of a node.
func (w World) Cgroup(node string) string { return "/" + w.Name + "/" + node }

// Gateway returns the addresses of the bridge: the source of traffic from the machine.
func (w World) Gateway() (v4, v6 netip.Addr) { return w.nodeIPv4(0, 1), w.nodeIPv6(0, 1) }

// HostAddresses and WorldAddresses return the addresses of the two ends of the link between the machine and the world network.
func (w World) HostAddresses() (v4, v6 netip.Addr) {
	return w.nodeIPv4(255, 253), w.nodeIPv6(0xffff, 1)
}
func (w World) WorldAddresses() (v4, v6 netip.Addr) {
	return w.nodeIPv4(255, 254), w.nodeIPv6(0xffff, 2)
}

func (w World) nodeIPv4(cluster, j int) netip.Addr {
	b := w.IPv4.Addr().As4()
	b[2], b[3] = byte(cluster), byte(j)
	return netip.AddrFrom4(b)
}

func (w World) nodeIPv6(cluster, j int) netip.Addr {
	if !w.HasIPv6() {
		return netip.Addr{}
	}
	b := w.IPv6.Addr().As16()
	b[12], b[13], b[14], b[15] = byte(cluster>>8), byte(cluster), byte(j>>8), byte(j)
	return netip.AddrFrom16(b)
}
