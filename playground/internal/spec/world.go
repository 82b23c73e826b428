// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package spec

import (
	"fmt"
	"net/netip"
	"regexp"
)

// World is the network between all nodes of all clusters. It has no uplink: nothing in it can leave the machine.
type World struct {
	Name string       `json:"name"` // prefix of everything the playground leaves in the kernel
	IPv4 netip.Prefix `json:"ipv4"` // a /16
	IPv6 netip.Prefix `json:"ipv6"` // a /64, or nothing where the kernel has no IPv6
}

// Bridge is the name of the switch inside the world's network namespace.
const Bridge = "world0"

var worldName = regexp.MustCompile("^[a-z][a-z0-9-]{0,8}$")

// NewWorld checks a name and an IPv4 network; two playgrounds on one machine need different ones.
func NewWorld(name, network string) (World, error) {
	p, err := netip.ParsePrefix(network)
	if err != nil || !p.Addr().Is4() || p.Bits() != 16 || p.Masked() != p {
		return World{}, fmt.Errorf("the world network must be an IPv4 /16: %q", network)
	}
	if !worldName.MatchString(name) {
		return World{}, fmt.Errorf("the playground's name must be at most 9 letters, digits and dashes: %q", name)
	}
	b := p.Addr().As4()
	v6 := netip.AddrFrom16([16]byte{0xfd, 0, b[0], b[1]})
	return World{Name: name, IPv4: p, IPv6: netip.PrefixFrom(v6, 64)}, nil
}

// HasIPv6 says whether the kernel lets the world have IPv6.
func (w World) HasIPv6() bool { return w.IPv6.IsValid() }

// Netns names the world's network namespace; NodeNetns a node's.
func (w World) Netns() string                { return w.Name + "-world" }
func (w World) NodeNetns(node string) string { return w.Name + "-" + node }

// HostLink is the interface on the machine that leads into the world.
func (w World) HostLink() string { return w.Name }

// Cgroup is the cgroup below which every node has its own.
func (w World) Cgroup(node string) string { return "/" + w.Name + "/" + node }

// Gateway is the world's own address, IPv4 and IPv6: the sender of whatever comes from the machine.
func (w World) Gateway() (v4, v6 netip.Addr) { return w.nodeIPv4(0, 1), w.nodeIPv6(0, 1) }

// HostSide and WorldSide are the two ends of the cable between the machine and the world.
func (w World) HostSide() (v4, v6 netip.Addr)  { return w.nodeIPv4(255, 253), w.nodeIPv6(0xffff, 1) }
func (w World) WorldSide() (v4, v6 netip.Addr) { return w.nodeIPv4(255, 254), w.nodeIPv6(0xffff, 2) }

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
