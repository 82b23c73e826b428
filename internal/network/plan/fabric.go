// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"net/netip"

	"liqo.io/liqo/internal/datapath"
	"liqo.io/liqo/internal/names"
)

// Priorities of nftables chains, in the order of the kernel.
const (
	beforeAll           = -450 // before defragmentation and conntrack
	beforeTracking      = -300
	beforeNAT           = -150 // after conntrack
	aliasNAT            = -101 // before kube-proxy
	destinationNAT      = -100
	afterDestinationNAT = -99 // after kube-proxy
	filter              = 0
	nodeSourceNAT       = 99 // before kube-proxy and CNIs
	sourceNAT           = 100
	afterAll            = 400
)

// allowedSource allows inner source prefixes from one outer source on the fabric (anti-spoofing).
type allowedSource struct {
	outer netip.Addr
	inner []netip.Prefix
}

// fabricLink returns the VXLAN between nodes and gateways, without an address, because a CNI would adopt the device.
func (s *model) fabricLink(self netip.Addr, mtu int) datapath.Link {
	return datapath.Link{
		Name: names.FabricDevice, MTU: mtu,
		VXLAN: &datapath.VXLAN{ID: 1, Port: names.FabricPort, MAC: datapath.MAC(self)},
	}
}

// nextHop returns the next hop of routes of a family to the node or gateway with the identity self. IPv4 can be routed via IPv6; IPv6 via IPv4
// needs an IPv6 next hop, made from self, which is an address of no host.
func nextHop(self netip.Addr, f datapath.Family) netip.Addr {
	if f == datapath.IPv4 || datapath.FamilyOf(self) == f {
		return self
	}
	b := self.As4()
	return netip.AddrFrom16([16]byte{0: 0xfe, 1: 0x80, 12: b[0], 13: b[1], 14: b[2], 15: b[3]})
}

// neighboursOf returns the neighbours for self, reached at the outer address, in all families.
func neighboursOf(self, outer netip.Addr, families []datapath.Family) []datapath.Neighbour {
	var out []datapath.Neighbour
	done := map[netip.Addr]bool{}
	for _, f := range families {
		via := nextHop(self, f)
		if !done[via] {
			done[via] = true
			out = append(out, datapath.Neighbour{Device: names.FabricDevice, Next: via, MAC: datapath.MAC(self), Outer: outer})
		}
	}
	return out
}

// unreachableRoute returns the fallback below the route to a network: while that route is missing, packets must not leave unencrypted by the
// default route.
func unreachableRoute(table int, to netip.Prefix) datapath.Route {
	return datapath.Route{Table: table, To: to, Unreachable: true, Metric: datapath.UnreachableMetric}
}

// fabricRoute returns the route via the node or gateway with the identity self.
func fabricRoute(table int, to netip.Prefix, self netip.Addr) datapath.Route {
	return datapath.Route{Table: table, To: to, Via: nextHop(self, familyOf(to)), Device: names.FabricDevice, OnLink: true}
}

// allowedSourceSets returns the anti-spoofing sets of outer and inner source, by the family of the inner packet.
func (s *model) allowedSourceSets(of []allowedSource) (same, other datapath.Set) {
	same = datapath.Set{Name: "speakers", Key: []datapath.Type{datapath.TypeAddress, datapath.TypeAddress}}
	other = datapath.Set{Name: "other_speakers", Key: []datapath.Type{datapath.TypeAddress, datapath.TypeOtherAddress}}
	for _, one := range of {
		if datapath.FamilyOf(one.outer) != s.outer {
			continue
		}
		for _, p := range prefixSet(one.inner) {
			if familyOf(p) == s.outer {
				same.Elements = append(same.Elements, datapath.Element{Key: []datapath.Value{datapath.Addr(one.outer), datapath.Prefix(p)}})
			} else {
				other.Elements = append(other.Elements, datapath.Element{Key: []datapath.Value{datapath.Addr(one.outer), datapath.OtherPrefix(p)}})
			}
		}
	}
	return same, other
}

// outerChains returns the chains for the outer packets of the fabric: untracked, hence without NAT, and dropped unless allowed by the anti-spoofing
// sets or by the rules of more. Packets lose the mark of the inner packet, and the mark of the outer packet, which has another meaning: Cilium marks
// a packet of a pod with the identity of the pod, in this case the gateway, and would take the mark for the identity of the inner source.
func (s *model) outerChains(more ...rule) []datapath.Chain {
	unmarked := datapath.SetNumber{Field: datapath.Mark, Number: 0}
	rules := append(more,
		rule{lookupIn("speakers", datapath.Source, datapath.InnerSource), unmarked, datapath.Notrack{}, accept},
		rule{lookupIn("other_speakers", datapath.Source, datapath.OtherInnerSource), unmarked, datapath.Notrack{}, accept},
		dropCounted(CounterOuter),
	)
	return []datapath.Chain{
		newBaseChain("outer", datapath.Filter, datapath.Prerouting, beforeTracking,
			appendStatements(overFabric(), datapath.Word{Field: datapath.DestinationScope, Word: datapath.Local}, goTo("outer_in")),
		),
		newChain("outer_in", rules...),
		newBaseChain("outer_out", datapath.Filter, datapath.Output, beforeTracking,
			rule{isProtocol(datapath.UDP), toPort(names.FabricPort), unmarked, datapath.Notrack{}},
		),
	}
}

// overFabric matches encapsulated packets, not the packets decapsulated from them.
func overFabric() rule {
	return rule{notFrom(names.FabricDevice), isProtocol(datapath.UDP), toPort(names.FabricPort)}
}

// familiesOf returns the selected families in order.
func familiesOf(requested func(datapath.Family) bool) []datapath.Family {
	var out []datapath.Family
	for _, f := range []datapath.Family{datapath.IPv4, datapath.IPv6} {
		if requested(f) {
			out = append(out, f)
		}
	}
	return out
}
