// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"cmp"
	"net/netip"
	"slices"

	"go4.org/netipx"
	"liqo.io/liqo/internal/datapath"
	"liqo.io/liqo/internal/names"
)

// probesTable is the routing table for the replies of peers' gateways to a node's probes.
const probesTable = 6092

// MACs of the probe devices. No device has the third: frames from the node to the source of the probes are dropped by every device, and are
// visible to a packet socket only.
var (
	probeMAC   = [6]byte{0x02, 0x6c, 'p', 'r', 'o', 'b'}
	echoMAC    = [6]byte{0x02, 0x6c, 'e', 'c', 'h', 'o'}
	nobodysMAC = [6]byte{0x02, 0x6c, 'n', 'o', 'n', 'e'}
)

// probeMTU is the largest MTU of a veth: the probes measure the path behind the veth.
const probeMTU = 65535

// Probe is a probe from a node to the gateways of a peer along the path of the node's pods.
type Probe struct {
	Peer     string // cluster ID
	From, To netip.Addr
	// Node is the source address of the probing node towards peers.
	Node netip.Addr
	// MTU of the route to the peer in bytes.
	MTU int
}

// ProbeResult is the outcome of a probe sent by an agent for a client.
type ProbeResult struct {
	Peer     string `json:"peer"`            // cluster ID
	Bytes    int    `json:"bytes,omitempty"` // of a full packet; 0 for a small one
	Answered bool   `json:"answered"`
	// Milliseconds is the round trip.
	Milliseconds float64 `json:"milliseconds,omitempty"`
}

// ProbeMAC returns the MAC of the probe device of a node: the node forwards frames sent to it from names.EchoDevice like those of pods.
func ProbeMAC() [6]byte { return probeMAC }

// Probes returns the probes of a node with a state. A probe to the address of a peer's gateways and the reply cover the whole path. No other address
// is fit for probes: a peer without a route to the address is not probed.
func Probes(peers []Peer, state datapath.State) []Probe {
	var out []Probe
	for _, p := range peers {
		local := p.Gateways()
		if !local.IsValid() {
			continue
		}
		route := slices.IndexFunc(state.Routes, func(r datapath.Route) bool {
			return r.To == local && r.Device == names.FabricDevice && r.Source.IsValid() && r.MTU > 0
		})
		back := slices.IndexFunc(state.Rules, func(r datapath.Rule) bool { return r.Table == probesTable && r.From == hostPrefix(local.Addr()) })
		if route >= 0 && back >= 0 {
			r := state.Routes[route]
			out = append(out, Probe{Peer: p.Key.ClusterID, From: state.Rules[back].To.Addr(), To: local.Addr(), Node: r.Source, MTU: r.MTU})
		}
	}
	slices.SortFunc(out, func(a, b Probe) int { return cmp.Compare(a.Peer, b.Peer) })
	return out
}

// addProbes adds the state for probing the gateways of peers along the path of pods: packets sent by the node itself are not forwarded, and do not
// pass the forward hook, where drops happen. A veth pair makes the node forward the probes, with a source like a pod's, because CNIs let packets of
// pods pass. Only the replies of the gateways to the source are routed to the veth: should a pod have the address, all its other traffic is
// unaffected.
func (n *nodePlan) addProbes(out *datapath.State, priority int) {
	requested := map[datapath.Family]bool{}
	for _, gateway := range n.far {
		f := datapath.FamilyOf(gateway)
		source := n.probeSource(f)
		if !source.IsValid() || !n.self.externalOf(f).IsValid() {
			continue
		}
		out.Rules = append(out.Rules, datapath.Rule{Priority: priority, Family: f, From: hostPrefix(gateway), To: hostPrefix(source), Table: probesTable})
		if requested[f] {
			continue
		}
		requested[f] = true
		back := datapath.Route{Table: probesTable, To: hostPrefix(source), Device: names.ProbeDevice}
		if f == datapath.IPv4 {
			back.Scope = datapath.ScopeLink
		}
		out.Routes = append(out.Routes, back)
		out.Neighbours = append(out.Neighbours, datapath.Neighbour{Device: names.ProbeDevice, Next: source, MAC: nobodysMAC})
	}
	if len(requested) > 0 {
		out.Links = append(out.Links,
			datapath.Link{Name: names.ProbeDevice, Veth: &datapath.Veth{Peer: names.EchoDevice, MAC: probeMAC}, MTU: probeMTU},
			datapath.Link{Name: names.EchoDevice, Veth: &datapath.Veth{Peer: names.ProbeDevice, MAC: echoMAC}, MTU: probeMTU},
		)
	}
}

// farGateways returns the addresses of peers' gateways, for peers whose networks are accepted.
func (n *nodePlan) farGateways(peers []Peer) []netip.Addr {
	var out []netip.Addr
	for _, p := range peers {
		local := p.Gateways()
		if slices.ContainsFunc(n.networks, func(net peerNetwork) bool { return net.external && net.peer == p.Key && net.Local == local }) {
			out = append(out, local.Addr())
		}
	}
	return addressSet(out)
}

// probeSource returns the source of a node's probes: an address of the pod CIDR, but not the first or last of a network, which hosts have for other
// reasons.
func (n *nodePlan) probeSource(f datapath.Family) netip.Addr {
	pods := ofFamily(n.pods, f)
	if len(pods) == 0 {
		return netip.Addr{}
	}
	if last := netipx.PrefixLastIP(pods[0]); pods[0].Bits() < last.BitLen()-1 {
		return last.Prev()
	}
	return pods[0].Addr()
}
