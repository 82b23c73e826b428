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
	*survey
	in          GatewayInput
	own, others []network // of the gateway's peer, of the rest
	families    []datapath.Family
}

// Gateway is all that the network namespace of a gateway must have, and what is left out of it. It is the same for replicas that
// wait, except for the device of the tunnel, which they have not.
func Gateway(in GatewayInput) (datapath.State, []Problem) {
	g := gateway{survey: look(in.Cluster, in.Address, in.Of), in: in}
	g.in.MTU = g.mtu()
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
	g.families = families(func(f datapath.Family) bool { // the tunnel itself has IPv4 addresses
		return f == datapath.IPv4 || f == g.outer || len(here(g.own, f)) > 0
	})
	var out datapath.State
	g.links(&out)
	g.hops(&out)
	g.routes(&out)
	firewalls := g.addUsers(&out, in.Cluster, userPlace{tables: []int{clusterTable, outTable}, before: fromPeerPriority})
	for _, f := range g.families {
		t := g.table(f)
		if firewalls.stateful {
			track(t.Chains, "from_fabric", "admit")
		}
		out.Tables = append(out.Tables, t)
	}
	if !slices.Contains(g.families, datapath.IPv6) && !in.NoIPv6 {
		out.Tables = append(out.Tables, closed(datapath.IPv6))
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

func (g *gateway) mtu() int {
	usable := UsableMTU(g.in.MTU)
	if usable != g.in.MTU && g.in.MTU != 0 {
		g.refuse(ReasonUnusableMTU, g.in.Of, "%d bytes are no MTU: %d is used", g.in.MTU, usable)
	}
	return usable
}

func (g *gateway) links(out *datapath.State) {
	out.Links = append(out.Links, datapath.Link{Name: names.TunnelDevice, MTU: g.in.MTU})
	if routable(g.in.Address) {
		out.Links = append(out.Links, g.fabricLink(g.in.Address, g.fabricMTU(g.in.MTU)))
	}
	ours, _ := TunnelAddresses(g.in.Server)
	out.Addresses = append(out.Addresses, datapath.Address{Device: names.TunnelDevice, Prefix: netip.PrefixFrom(ours, tunnelNetwork.Bits())})
	for _, f := range g.families {
		if a := g.unknownSource(f); a.IsValid() {
			out.Addresses = append(out.Addresses, datapath.Address{Device: "lo", Prefix: host(a)})
		}
	}
}

// outerOf is the address with which a node talks to this gateway.
func (g *gateway) outerOf(m Member) netip.Addr {
	a := m.Remote
	if m.Of.Name == g.in.Node {
		a = m.Local
	}
	if !routable(a) || datapath.FamilyOf(a) != g.outer {
		return netip.Addr{}
	}
	return a
}

// reached are the nodes that this gateway reaches.
func (g *gateway) reached() []Member {
	return slices.DeleteFunc(slices.Clone(g.members), func(m Member) bool {
		return !m.identity().IsValid() || !g.outerOf(m).IsValid() || !routable(g.in.Address)
	})
}

// neighbours are the gateways of other peers that run.
func (g *gateway) neighbours() []Tunnel {
	return slices.DeleteFunc(slices.Clone(g.tunnels), func(o Tunnel) bool { return o.Peer == g.in.Peer || !o.Active.IsValid() || !routable(g.in.Address) })
}

func (g *gateway) hops(out *datapath.State) {
	for _, m := range g.reached() {
		out.Hops = append(out.Hops, hops(m.identity(), g.outerOf(m), g.families)...)
	}
	for _, o := range g.neighbours() {
		out.Hops = append(out.Hops, hops(o.Active, o.Active, g.families)...)
	}
}

func (g *gateway) routes(out *datapath.State) {
	for _, f := range g.families {
		if len(here(g.own, f)) > 0 {
			out.Rules = append(out.Rules, datapath.Rule{Priority: outPriority, Family: f, Table: outTable})
			out.Rules = append(out.Rules, g.outside(f)...)
		}
	}
	for _, n := range g.own {
		f := familyOf(n.Here)
		out.Rules = append(out.Rules,
			datapath.Rule{Priority: fromPeerPriority, Family: f, From: n.Here, Table: clusterTable},
			datapath.Rule{Priority: nowherePriority, Family: f, From: n.Here, Unreachable: true},
		)
		out.Routes = append(out.Routes, unreachable(outTable, n.Here))
		if !g.fits(n, g.in.Of, g.in.Passing) {
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
	g.transit(out)
	g.toCluster(out)
}

// outside keeps the tunnel's own packets out of it, and of others, wherever the other end is: a peer may be seen here under a network that covers
// that. They have a mark, and what comes to the pod's address is looked at by the way back to where it came from.
func (g *gateway) outside(f datapath.Family) []datapath.Rule {
	rules := []datapath.Rule{{Priority: outerPriority, Family: f, Mark: names.TunnelMark, Table: datapath.MainTable}}
	if self := g.self(f); self.IsValid() {
		rules = append(rules, datapath.Rule{Priority: outerPriority, Family: f, From: self, Table: datapath.MainTable})
	}
	return rules
}

// self is the address of this pod, in its family.
func (g *gateway) self(f datapath.Family) netip.Prefix {
	if f != g.outer || !routable(g.in.Address) {
		return netip.Prefix{}
	}
	return host(g.in.Address)
}

// transit adds the routes to other peers, by their gateways.
func (g *gateway) transit(out *datapath.State) {
	for _, n := range g.others {
		f := familyOf(n.Here)
		if !slices.Contains(g.families, f) {
			continue
		}
		out.Routes = append(out.Routes, unreachable(outTable, n.Here))
		o := g.tunnel(n.peer)
		if !o.Active.IsValid() || !routable(g.in.Address) || !g.fits(n, o.Of, o.MTU) {
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
	add := func(to netip.Prefix, by Member) {
		if slices.Contains(g.families, familyOf(to)) && !done[to] {
			done[to] = true
			out.Routes = append(out.Routes, fabricRoute(clusterTable, to, by.identity()))
		}
	}
	reached := g.reached()
	for _, m := range reached {
		for _, a := range m.External {
			add(host(a), m)
		}
	}
	for _, m := range reached {
		for _, p := range m.PodCIDRs {
			add(p, m)
		}
	}
	way := g.ways(reached)
	for _, a := range g.shown() {
		if by, ok := way(a.Address); ok {
			add(host(a.Address), by)
		}
	}
}

// ways tells the node by which an address is reached: itself, if it is a node's, so that replies come back the same way; else that of
// this gateway. Pods and what is of peers have their own routes.
func (g *gateway) ways(reached []Member) func(netip.Addr) (Member, bool) {
	nodes := map[netip.Addr]Member{}
	for _, m := range slices.Backward(reached) { // the first is right
		for _, a := range m.nodeAddresses() {
			nodes[a] = m
		}
	}
	i := slices.IndexFunc(reached, func(m Member) bool { return m.Of.Name == g.in.Node })
	return func(a netip.Addr) (Member, bool) {
		if contains(g.pods, a) || slices.ContainsFunc(g.networks, func(n network) bool { return n.Here.Contains(a) }) {
			return Member{}, false
		}
		if m, ok := nodes[a]; ok {
			return m, true
		}
		if i < 0 {
			return Member{}, false
		}
		return reached[i], true
	}
}

// shown are the aliases that the peer can use: all that are not its own addresses.
func (g *gateway) shown() []Alias {
	return slices.DeleteFunc(slices.Clone(g.aliases), func(a Alias) bool {
		return slices.ContainsFunc(g.own, func(n network) bool { return n.Here.Contains(a.Address) })
	})
}
