// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"net/netip"
	"slices"

	"liqo.io/liqo/internal/datapath"
	"liqo.io/liqo/internal/names"
)

// Tables of routes of gateways: to this cluster, for what comes from the peer, and to peers.
const (
	clusterTable = 100
	outTable     = 101
)

// Priorities of the rules of gateways. What comes from the peer and is for nobody here goes nowhere.
const (
	outerPriority    = 98 // before those of users
	fromPeerPriority = 100
	outPriority      = 101
	nowherePriority  = 110
)

// tunnelNetwork has both ends of a tunnel, the server's first.
var tunnelNetwork = netip.MustParsePrefix("169.254.18.0/30")

// TunnelNetwork has both ends of a tunnel.
func TunnelNetwork() netip.Prefix { return tunnelNetwork }

// TunnelAddresses are those of the tunnel, ours and the peer's.
func TunnelAddresses(server bool) (ours, theirs netip.Addr) {
	first := tunnelNetwork.Addr().Next()
	if server {
		return first, first.Next()
	}
	return first.Next(), first
}

// gateway is a plan for a gateway.
type gateway struct {
	*model
	in          GatewayInput
	own, others []peerNetwork // of the gateway's peer, of the rest
	families    []datapath.Family
}

// Gateway is all that the network namespace of a gateway must have, and what is left out of it. It is the same for replicas that
// wait, except for the device of the tunnel, which they have not.
func Gateway(in GatewayInput) (datapath.State, []Problem) {
	g := gateway{model: newModel(in.Cluster, in.Address, in.Of), in: in}
	g.in.MTU = g.linkMTU()
	if g.in.Passing <= 0 || g.in.Passing > g.in.MTU {
		g.in.Passing = g.in.MTU
	}
	for _, n := range g.networks {
		if n.peer == in.Peer {
			g.own = append(g.own, n)
		} else {
			g.others = append(g.others, n)
		}
	}
	g.families = familiesOf(func(f datapath.Family) bool { // the tunnel itself has IPv4 addresses
		return f == datapath.IPv4 || f == g.outer || len(localPrefixes(g.own, f)) > 0
	})
	var out datapath.State
	g.addLinks(&out)
	g.addNeighbours(&out)
	g.addRoutes(&out)
	firewalls := g.addUsers(&out, in.Cluster, userPlace{tables: []int{clusterTable, outTable}, before: fromPeerPriority})
	for _, f := range g.families {
		t := g.edgeTable(f)
		if firewalls.stateful {
			trackFlows(t.Chains, "from_fabric", "admit")
		}
		out.Tables = append(out.Tables, t)
	}
	if !slices.Contains(g.families, datapath.IPv6) && !in.NoIPv6 {
		out.Tables = append(out.Tables, closedTable(datapath.IPv6))
	}
	out.Sort()
	return out, sortedProblems(g.problems)
}

// UsableMTU is what a tunnel has, in bytes, of which that much was asked: names.DefaultMTU where that is no MTU.
func UsableMTU(asked int) int {
	if asked < names.MinMTU || asked > names.MaxMTU {
		return names.DefaultMTU
	}
	return asked
}

func (g *gateway) linkMTU() int {
	usable := UsableMTU(g.in.MTU)
	if usable != g.in.MTU && g.in.MTU != 0 {
		g.reject(ReasonUnusableMTU, g.in.Of, "%d bytes are no MTU: %d is used", g.in.MTU, usable)
	}
	return usable
}

func (g *gateway) addLinks(out *datapath.State) {
	out.Links = append(out.Links, datapath.Link{Name: names.TunnelDevice, MTU: g.in.MTU})
	if isRoutable(g.in.Address) {
		out.Links = append(out.Links, g.fabricLink(g.in.Address, g.fabricMTU(g.in.MTU)))
	}
	ours, _ := TunnelAddresses(g.in.Server)
	out.Addresses = append(out.Addresses, datapath.Address{Device: names.TunnelDevice, Prefix: netip.PrefixFrom(ours, tunnelNetwork.Bits())})
	for _, f := range g.families {
		if a := g.unknownSource(f); a.IsValid() {
			out.Addresses = append(out.Addresses, datapath.Address{Device: "lo", Prefix: hostPrefix(a)})
		}
	}
}

// outerOf is the address with which a node talks to this gateway.
func (g *gateway) outerOf(m ClusterNode) netip.Addr {
	a := m.Remote
	if m.Of.Name == g.in.Node {
		a = m.Local
	}
	if !isRoutable(a) || datapath.FamilyOf(a) != g.outer {
		return netip.Addr{}
	}
	return a
}

// reachedNodes are the nodes that this gateway reaches.
func (g *gateway) reachedNodes() []ClusterNode {
	return slices.DeleteFunc(slices.Clone(g.members), func(m ClusterNode) bool {
		return !m.identityAddr().IsValid() || !g.outerOf(m).IsValid() || !isRoutable(g.in.Address)
	})
}

// otherTunnels are the gateways of other peers that run.
func (g *gateway) otherTunnels() []Tunnel {
	return slices.DeleteFunc(slices.Clone(g.tunnels), func(o Tunnel) bool { return o.Peer == g.in.Peer || !o.Active.IsValid() || !isRoutable(g.in.Address) })
}

func (g *gateway) addNeighbours(out *datapath.State) {
	for _, m := range g.reachedNodes() {
		out.Neighbours = append(out.Neighbours, neighboursOf(m.identityAddr(), g.outerOf(m), g.families)...)
	}
	for _, o := range g.otherTunnels() {
		out.Neighbours = append(out.Neighbours, neighboursOf(o.Active, o.Active, g.families)...)
	}
}

func (g *gateway) addRoutes(out *datapath.State) {
	for _, f := range g.families {
		if len(localPrefixes(g.own, f)) > 0 {
			out.Rules = append(out.Rules, datapath.Rule{Priority: outPriority, Family: f, Table: outTable})
			out.Rules = append(out.Rules, g.outsideRules(f)...)
		}
	}
	for _, n := range g.own {
		f := familyOf(n.Here)
		out.Rules = append(out.Rules,
			datapath.Rule{Priority: fromPeerPriority, Family: f, From: n.Here, Table: clusterTable},
			datapath.Rule{Priority: nowherePriority, Family: f, From: n.Here, Unreachable: true},
		)
		out.Routes = append(out.Routes, unreachableRoute(outTable, n.Here))
		if !g.fitsMTU(n, g.in.Of, g.in.Passing) {
			continue
		}
		r := datapath.Route{Table: outTable, To: n.Here, Device: names.TunnelDevice, Source: g.unknownSource(f)}
		if _, theirs := TunnelAddresses(g.in.Server); f == datapath.IPv4 {
			r.Via = theirs
		}
		if g.in.Passing < g.in.MTU {
			r.MTU = g.in.Passing
		}
		out.Routes = append(out.Routes, r)
	}
	g.addTransit(out)
	g.toCluster(out)
}

// outsideRules keeps the tunnel's own packets out of it, and of others, wherever the other end is: a peer may be seen here under a network that covers
// that. They have a mark, and what comes to the pod's address is looked at by the way back to where it came from.
func (g *gateway) outsideRules(f datapath.Family) []datapath.Rule {
	rules := []datapath.Rule{{Priority: outerPriority, Family: f, Mark: names.TunnelMark, Table: datapath.MainTable}}
	if self := g.selfPrefix(f); self.IsValid() {
		rules = append(rules, datapath.Rule{Priority: outerPriority, Family: f, From: self, Table: datapath.MainTable})
	}
	return rules
}

// selfPrefix is the address of this pod, in its family.
func (g *gateway) selfPrefix(f datapath.Family) netip.Prefix {
	if f != g.outer || !isRoutable(g.in.Address) {
		return netip.Prefix{}
	}
	return hostPrefix(g.in.Address)
}

// addTransit adds the routes to other peers, by their gateways.
func (g *gateway) addTransit(out *datapath.State) {
	for _, n := range g.others {
		f := familyOf(n.Here)
		if !slices.Contains(g.families, f) {
			continue
		}
		out.Routes = append(out.Routes, unreachableRoute(outTable, n.Here))
		o := g.tunnelOf(n.peer)
		if !o.Active.IsValid() || !isRoutable(g.in.Address) || !g.fitsMTU(n, o.Of, o.MTU) {
			continue
		}
		r := fabricRoute(outTable, n.Here, o.Active)
		r.Source, r.MTU = g.unknownSource(f), o.MTU
		out.Routes = append(out.Routes, r)
	}
}

// toCluster adds the routes to pods, to nodes, and to what else peers see.
func (g *gateway) toCluster(out *datapath.State) {
	done := map[netip.Prefix]bool{}
	add := func(to netip.Prefix, by ClusterNode) {
		if slices.Contains(g.families, familyOf(to)) && !done[to] {
			done[to] = true
			out.Routes = append(out.Routes, fabricRoute(clusterTable, to, by.identityAddr()))
		}
	}
	reached := g.reachedNodes()
	for _, m := range reached {
		for _, a := range m.External {
			add(hostPrefix(a), m)
		}
	}
	for _, m := range reached {
		for _, p := range m.PodCIDRs {
			add(p, m)
		}
	}
	way := g.routesTo(reached)
	for _, a := range g.publishedIPs() {
		if by, ok := way(a.Address); ok {
			add(hostPrefix(a.Address), by)
		}
	}
}

// routesTo tells the node by which an address is reached: itself, if it is a node's, so that replies come back the same way; else that of
// this gateway. Pods and what is of peers have their own routes.
func (g *gateway) routesTo(reached []ClusterNode) func(netip.Addr) (ClusterNode, bool) {
	nodes := map[netip.Addr]ClusterNode{}
	for _, m := range slices.Backward(reached) { // the first is right
		for _, a := range m.nodeAddresses() {
			nodes[a] = m
		}
	}
	i := slices.IndexFunc(reached, func(m ClusterNode) bool { return m.Of.Name == g.in.Node })
	return func(a netip.Addr) (ClusterNode, bool) {
		if containsAddr(g.pods, a) || slices.ContainsFunc(g.networks, func(n peerNetwork) bool { return n.Here.Contains(a) }) {
			return ClusterNode{}, false
		}
		if m, ok := nodes[a]; ok {
			return m, true
		}
		if i < 0 {
			return ClusterNode{}, false
		}
		return reached[i], true
	}
}

// publishedIPs are the aliases that the peer can use: all that are not its own addresses.
func (g *gateway) publishedIPs() []TranslatedIP {
	return slices.DeleteFunc(slices.Clone(g.aliases), func(a TranslatedIP) bool {
		return slices.ContainsFunc(g.own, func(n peerNetwork) bool { return n.Here.Contains(a.Address) })
	})
}
