// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"cmp"
	"net/netip"
	"slices"

	"liqo.io/liqo/internal/datapath"
	"liqo.io/liqo/internal/names"
)

// probesTable is the table of routes by which answers of peers' gateways get back to who probes the way to them.
const probesTable = 6092

// Addresses of the devices by which a node probes. Nobody has the third: what a node sends to whoever probes is for no device, and only who
// listens to all that arrives sees it.
var (
	probeMAC   = [6]byte{0x02, 0x6c, 'p', 'r', 'o', 'b'}
	echoMAC    = [6]byte{0x02, 0x6c, 'e', 'c', 'h', 'o'}
	nobodysMAC = [6]byte{0x02, 0x6c, 'n', 'o', 'n', 'e'}
)

// probeMTU is the largest MTU of a veth: what is probed is the way behind it.
const probeMTU = 65535

// Probe is how a node asks the gateways of a peer as its pods would.
type Probe struct {
	Peer     string // ID of its cluster
	From, To netip.Addr
	// Node is the address that peers know the asking node by.
	Node netip.Addr
	// MTU is that of the route to the peer, in bytes.
	MTU int
}

// ProbeMAC is the address of the device that takes a node's probes in: what names.EchoDevice sends there is forwarded as what pods send.
func ProbeMAC() [6]byte { return probeMAC }

// Probes are those for which a node in that state is made. What goes to the address that a peer's gateways have, and back, took the whole way to
// them. There is no other such address: of a peer without a route there nothing is known.
func Probes(peers []Peer, state datapath.State) []Probe {
	var out []Probe
	for _, p := range peers {
		here := p.Gateways()
		if !here.IsValid() {
			continue
		}
		route := slices.IndexFunc(state.Routes, func(r datapath.Route) bool {
			return r.To == here && r.Device == names.FabricDevice && r.Source.IsValid() && r.MTU > 0
		})
		back := slices.IndexFunc(state.Rules, func(r datapath.Rule) bool { return r.Table == probesTable && r.From == hostPrefix(here.Addr()) })
		if route >= 0 && back >= 0 {
			r := state.Routes[route]
			out = append(out, Probe{Peer: p.Key.ClusterID, From: state.Rules[back].To.Addr(), To: here.Addr(), Node: r.Source, MTU: r.MTU})
		}
	}
	slices.SortFunc(out, func(a, b Probe) int { return cmp.Compare(a.Peer, b.Peer) })
	return out
}

// addProbes adds what a node needs to ask gateways of peers by the way of its pods: what it sends itself is not forwarded, and is not what
// the hook for that drops. A pair of devices has the node forward what who probes sends, with a source that looks like that of a pod, since
// CNIs let pass what does. Only what those gateways answer to that address comes back to the devices: should a pod have it, all else is its own.
func (n *nodePlan) addProbes(out *datapath.State, priority int) {
	asked := map[datapath.Family]bool{}
	for _, gateway := range n.far {
		f := datapath.FamilyOf(gateway)
		asker := n.probeSource(f)
		if !asker.IsValid() || !n.self.externalOf(f).IsValid() {
			continue
		}
		out.Rules = append(out.Rules, datapath.Rule{Priority: priority, Family: f, From: hostPrefix(gateway), To: hostPrefix(asker), Table: probesTable})
		if asked[f] {
			continue
		}
		asked[f] = true
		back := datapath.Route{Table: probesTable, To: hostPrefix(asker), Device: names.ProbeDevice}
		if f == datapath.IPv4 {
			back.Scope = datapath.ScopeLink
		}
		out.Routes = append(out.Routes, back)
		out.Neighbours = append(out.Neighbours, datapath.Neighbour{Device: names.ProbeDevice, Next: asker, MAC: nobodysMAC})
	}
	if len(asked) > 0 {
		out.Links = append(out.Links,
			datapath.Link{Name: names.ProbeDevice, Veth: &datapath.Veth{Peer: names.EchoDevice, MAC: probeMAC}, MTU: probeMTU},
			datapath.Link{Name: names.EchoDevice, Veth: &datapath.Veth{Peer: names.ProbeDevice, MAC: echoMAC}, MTU: probeMTU},
		)
	}
}

// farGateways are the addresses of peers' gateways, of those peers whose networks are taken.
func (n *nodePlan) farGateways(peers []Peer) []netip.Addr {
	var out []netip.Addr
	for _, p := range peers {
		here := p.Gateways()
		if slices.ContainsFunc(n.networks, func(net peerNetwork) bool { return net.external && net.peer == p.Key && net.Here == here }) {
			out = append(out, here.Addr())
		}
	}
	return addressSet(out)
}

// probeSource is the source of a node's probes: an address of pods, but not one that hosts have for other reasons, as the first and the last of a
// network.
func (n *nodePlan) probeSource(f datapath.Family) netip.Addr {
	pods := ofFamily(n.pods, f)
	if len(pods) == 0 {
		return netip.Addr{}
	}
	if last := lastOf(pods[0]); pods[0].Bits() < last.BitLen()-1 {
		return last.Prev()
	}
	return pods[0].Addr()
}
