// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"net/netip"
	"slices"

	"liqo.io/liqo/internal/datapath"
	"liqo.io/liqo/internal/names"
)

// Routing tables of gateways: to this cluster, for packets from the peer, and to peers.
const (
	clusterTable = 100
	outTable     = 101
)

// Priorities of the policy routing rules of gateways. Packets from the peer without a route are unreachable.
const (
	outerPriority    = 98 // before users' rules
	fromPeerPriority = 100
	outPriority      = 101
	nowherePriority  = 110
)

// tunnelNetwork contains both tunnel addresses, the server's first.
var tunnelNetwork = netip.MustParsePrefix("169.254.18.0/30")

// TunnelNetwork returns the network of the two tunnel addresses.
func TunnelNetwork() netip.Prefix { return tunnelNetwork }

// TunnelAddresses returns the tunnel addresses of this gateway and of the peer's.
func TunnelAddresses(server bool) (local, remote netip.Addr) {
	first := tunnelNetwork.Addr().Next()
	if server {
		return first, first.Next()
	}
	return first.Next(), first
}

// gateway builds the plan for a gateway.
type gateway struct {
	*model
	in          GatewayInput
	own, others []peerNetwork // networks of the gateway's peer, of other peers
	families    []datapath.Family
}

// Gateway returns the desired state of a gateway's network namespace, and the problems of the objects left out. Standby replicas have the same
// state except for the tunnel device, which they lack.
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

// UsableMTU returns the MTU of a tunnel in bytes for a requested MTU: names.DefaultMTU if the requested MTU is out of range.
func UsableMTU(requested int) int {
	if requested < names.MinMTU || requested > names.MaxMTU {
		return names.DefaultMTU
	}
	return requested
}

func (g *gateway) linkMTU() int {
	usable := UsableMTU(g.in.MTU)
	if usable != g.in.MTU && g.in.MTU != 0 {
		g.reject(ReasonUnusableMTU, g.in.Of, "invalid MTU %d: using %d", g.in.MTU, usable)
	}
	return usable
}

func (g *gateway) addLinks(out *datapath.State) {
	out.Links = append(out.Links, datapath.Link{Name: names.TunnelDevice, MTU: g.in.MTU})
	if isRoutable(g.in.Address) {
		out.Links = append(out.Links, g.fabricLink(g.in.Address, g.fabricMTU(g.in.MTU)))
	}
	local, _ := TunnelAddresses(g.in.Server)
	out.Addresses = append(out.Addresses, datapath.Address{Device: names.TunnelDevice, Prefix: netip.PrefixFrom(local, tunnelNetwork.Bits())})
	for _, f := range g.families {
		if a := g.unknownSource(f); a.IsValid() {
			out.Addresses = append(out.Addresses, datapath.Address{Device: "lo", Prefix: hostPrefix(a)})
		}
	}
}

// outerOf returns the source address of a node towards this gateway.
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

// reachedNodes returns the nodes reachable from this gateway.
func (g *gateway) reachedNodes() []ClusterNode {
	return slices.DeleteFunc(slices.Clone(g.members), func(m ClusterNode) bool {
		return !m.identityAddr().IsValid() || !g.outerOf(m).IsValid() || !isRoutable(g.in.Address)
	})
}

// otherTunnels returns the gateways of other peers.
func (g *gateway) otherTunnels() []Tunnel {
	return slices.DeleteFunc(slices.Clone(g.tunnels), func(o Tunnel) bool { return o.Peer == g.in.Peer || !isRoutable(g.in.Address) })
}

func (g *gateway) addNeighbours(out *datapath.State) {
	for _, m := range g.reachedNodes() {
		out.Neighbours = append(out.Neighbours, neighboursOf(m.identityAddr(), g.outerOf(m), g.families)...)
	}
	for _, o := range g.otherTunnels() {
		for _, a := range o.allAddresses() {
			out.Neighbours = append(out.Neighbours, neighboursOf(a, a, g.families)...)
		}
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
		f := familyOf(n.Local)
		out.Rules = append(out.Rules,
			datapath.Rule{Priority: fromPeerPriority, Family: f, From: n.Local, Table: clusterTable},
			datapath.Rule{Priority: nowherePriority, Family: f, From: n.Local, Unreachable: true},
		)
		out.Routes = append(out.Routes, unreachableRoute(outTable, n.Local))
		if !g.fitsMTU(n, g.in.Of, g.in.Passing) {
			continue
		}
		r := datapath.Route{Table: outTable, To: n.Local, Device: names.TunnelDevice, Source: g.unknownSource(f)}
		if _, remote := TunnelAddresses(g.in.Server); f == datapath.IPv4 {
			r.Via = remote
		}
		if g.in.Passing < g.in.MTU {
			r.MTU = g.in.Passing
		}
		out.Routes = append(out.Routes, r)
	}
	g.addTransit(out)
	g.toCluster(out)
}

// outsideRules keeps the tunnel's own outer packets out of all tunnels: the local network of a peer may cover the address of the remote gateway.
// Outgoing packets have a mark, and incoming packets pass the reverse path filter by the rule for the pod's address.
func (g *gateway) outsideRules(f datapath.Family) []datapath.Rule {
	rules := []datapath.Rule{{Priority: outerPriority, Family: f, Mark: names.TunnelMark, Table: datapath.MainTable}}
	if self := g.selfPrefix(f); self.IsValid() {
		rules = append(rules, datapath.Rule{Priority: outerPriority, Family: f, From: self, Table: datapath.MainTable})
	}
	return rules
}

// selfPrefix returns the address of this pod, in its family only.
func (g *gateway) selfPrefix(f datapath.Family) netip.Prefix {
	if f != g.outer || !isRoutable(g.in.Address) {
		return netip.Prefix{}
	}
	return hostPrefix(g.in.Address)
}

// addTransit adds the routes to other peers via their gateways.
func (g *gateway) addTransit(out *datapath.State) {
	for _, n := range g.others {
		f := familyOf(n.Local)
		if !slices.Contains(g.families, f) {
			continue
		}
		out.Routes = append(out.Routes, unreachableRoute(outTable, n.Local))
		o := g.tunnelOf(n.peer)
		if !o.Active.IsValid() || !isRoutable(g.in.Address) || !g.fitsMTU(n, o.Of, o.MTU) {
			continue
		}
		r := fabricRoute(outTable, n.Local, o.Active)
		r.Source, r.MTU = g.unknownSource(f), o.MTU
		out.Routes = append(out.Routes, r)
	}
}

// toCluster adds the routes to pods, nodes, and other addresses exposed to the peer.
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

// routesTo returns a function for the next node to an address: a node's address leads to the node itself, so that replies return by the same path;
// any other address leads to the node of this gateway. Pods and networks of peers have their own routes.
func (g *gateway) routesTo(reached []ClusterNode) func(netip.Addr) (ClusterNode, bool) {
	nodes := map[netip.Addr]ClusterNode{}
	for _, m := range slices.Backward(reached) { // backwards, so that the first node wins
		for _, a := range m.nodeAddresses() {
			nodes[a] = m
		}
	}
	i := slices.IndexFunc(reached, func(m ClusterNode) bool { return m.Of.Name == g.in.Node })
	return func(a netip.Addr) (ClusterNode, bool) {
		if _, remote := g.networkAt(a); remote || containsAddr(g.pods, a) {
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

// publishedIPs returns the translated IPs usable by the peer: the IPs for all peers or for this peer, of addresses outside the peer's networks.
func (g *gateway) publishedIPs() []TranslatedIP {
	return slices.DeleteFunc(slices.Clone(g.aliases), func(a TranslatedIP) bool {
		return a.Peers != nil && !slices.Contains(a.Peers, g.in.Peer.ClusterID) || slices.ContainsFunc(g.own, func(n peerNetwork) bool { return n.Local.Contains(a.Address) })
	})
}
