// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"crypto/sha256"
	"fmt"
	"net/netip"
	"slices"

	"liqo.io/liqo/internal/datapath"
	"liqo.io/liqo/internal/names"
)

// peersTable is the table of routes by which nodes reach peers.
const peersTable = 6091

// defaultRulePriority is that of the rule that leads to peers: before those of CNIs for single pods.
const defaultRulePriority = 105

// node is a plan for a node.
type node struct {
	*survey
	self     Member
	name     string
	families []datapath.Family
	far      []netip.Addr // of gateways of peers
}

// Node is all that the network namespace of a node must have, and what is left out of it.
//
// Without an address in front of peers the node sends nothing to them: all that is theirs is unreachable.
func Node(in NodeInput) (datapath.State, []Problem) {
	priority := in.RulePriority
	if priority <= 0 || priority >= mainPriority {
		priority = defaultRulePriority
	}
	n := node{survey: look(in.Cluster, netip.Addr{}, Object{}), name: in.Name}
	n.self = n.member(in.Name)
	n.families = families(n.asked)
	n.far = n.farGateways(in.Peers)
	var out datapath.State
	n.fabric(&out)
	n.routes(&out, priority)
	n.probes(&out, priority)
	for _, f := range n.families {
		out.Tables = append(out.Tables, n.table(f))
	}
	n.addUsers(&out, in.Cluster, userPlace{tables: []int{peersTable, probesTable}, before: priority})
	out.Sort()
	return out, sortedProblems(n.problems)
}

// asked is true for a family in which there is something to say.
func (n *node) asked(f datapath.Family) bool {
	return f == n.outer && n.self.identity().IsValid() || len(here(n.networks, f)) > 0 ||
		slices.ContainsFunc(n.held, func(p netip.Prefix) bool { return familyOf(p) == f }) ||
		slices.ContainsFunc(n.aliases, func(a Alias) bool { return datapath.FamilyOf(a.Alias) == f })
}

// fabric adds the device, and the hops to all gateways.
func (n *node) fabric(out *datapath.State) {
	self := n.self.identity()
	if !self.IsValid() {
		return
	}
	out.Links = append(out.Links, n.fabricLink(self, n.fabricMTU(0)))
	for _, a := range n.self.External {
		out.Addresses = append(out.Addresses, datapath.Address{Device: "lo", Prefix: host(a)})
	}
	for _, g := range n.gateways() {
		out.Hops = append(out.Hops, hops(g.Active, g.Active, n.families)...)
	}
}

// routes adds those to peers, each by its gateway.
func (n *node) routes(out *datapath.State, priority int) {
	for _, f := range n.families {
		out.Rules = append(out.Rules, datapath.Rule{Priority: priority, Family: f, Table: peersTable})
	}
	n.outside(out, priority)
	for _, net := range n.networks {
		out.Routes = append(out.Routes, unreachable(peersTable, net.Here))
		g := n.tunnel(net.peer)
		if !g.Active.IsValid() || !n.self.identity().IsValid() || !n.fits(net, g.Of, g.MTU) {
			continue
		}
		r := fabricRoute(peersTable, net.Here, g.Active)
		r.Source, r.MTU = n.self.externalOf(familyOf(net.Here)), g.MTU
		out.Routes = append(out.Routes, r)
	}
	for _, p := range n.held {
		out.Routes = append(out.Routes, unreachable(peersTable, p))
	}
}

// outside leads what pods of gateways send as themselves past our routes, and those of users, to those of the CNI: the other end of a tunnel
// may have an address under which a peer is seen here.
func (n *node) outside(out *datapath.State, priority int) {
	gateways := n.gateways()
	if len(gateways) == 0 || !slices.Contains(n.families, n.outer) {
		return
	}
	for _, g := range gateways {
		out.Rules = append(out.Rules, datapath.Rule{Priority: max(priority-2, 0), Family: n.outer, From: host(g.Active), GoTo: priority + 1})
	}
	out.Rules = append(out.Rules, datapath.Rule{Priority: priority + 1, Family: n.outer, Nop: true})
}

// table is the table of nftables of one family.
func (n *node) table(f datapath.Family) datapath.Table {
	t := datapath.Table{Family: f, Name: datapath.TableName}
	if f == n.outer {
		same, other := n.speakers(n.mouths())
		t.Sets = append(t.Sets, same, other)
		outer := n.outerChains()
		// What is only passed on to a gateway on this node is not looked at, and not translated either.
		outer[0].Rules = append(outer[0].Rules, with(overFabric(), datapath.Untracked{}))
		t.Chains = append(t.Chains, outer...)
	}
	t.Sets = append(t.Sets, n.sets(f)...)
	maps, services := n.serviceSets(f)
	t.Sets = append(t.Sets, maps...)
	t.Chains = append(t.Chains, strayChains()...)
	t.Chains = append(t.Chains, aliasChains()...)
	t.Chains = append(t.Chains, guardChains(services)...)
	t.Chains = append(t.Chains, n.postChains(f)...)
	finish(&t)
	return t
}

// gateways are those that run.
func (n *node) gateways() []Tunnel {
	return slices.DeleteFunc(slices.Clone(n.tunnels), func(g Tunnel) bool { return !g.Active.IsValid() })
}

// mouths are the gateways, each for its peer alone.
func (n *node) mouths() []speaker {
	var out []speaker
	for _, g := range n.gateways() {
		of := slices.DeleteFunc(slices.Clone(n.networks), func(net network) bool { return net.peer != g.Peer })
		out = append(out, speaker{g.Active, append(here(of, datapath.IPv4), here(of, datapath.IPv6)...)})
	}
	return out
}

// ownGateways are the addresses of the gateways of this cluster.
func (n *node) ownGateways() []netip.Prefix {
	var out []netip.Prefix
	for _, g := range n.gateways() {
		out = append(out, host(g.Active))
	}
	return out
}

func (n *node) sets(f datapath.Family) []datapath.Set {
	peers, nodes := here(n.networks, f), n.nodeAddresses()
	var shown, hidden, beyond, local, translated []Alias // to peers, to them behind a node's address, behind other nodes maybe, to this cluster
	for _, a := range n.aliases {
		if datapath.FamilyOf(a.Alias) != f {
			continue
		}
		if !n.ofPeer(a.Address) {
			shown = append(shown, a)
			switch {
			case a.Masquerade:
				hidden = append(hidden, a)
			case !nodes[a.Address] && !contains(n.pods, a.Address) && !contains(n.services, a.Address):
				beyond = append(beyond, a)
			}
		}
		switch service := contains(n.services, a.Address); {
		case service:
			translated = append(translated, a)
		case a.Masquerade:
			translated, local = append(translated, a), append(local, a)
		}
	}
	return []datapath.Set{
		prefixes("peers", f, peers),
		prefixes("gateways", f, hosts(n.far...)),
		prefixes("own_gateways", f, n.ownGateways()),
		prefixes("pods", f, n.pods),
		prefixes("services", f, n.services),
		prefixes("direct", f, append(slices.Clone(n.services), peers...)),
		prefixes("exposed", f, each(shown, addressOf)),
		prefixes("masquerade", f, each(hidden, addressOf)),
		prefixes("beyond", f, each(beyond, addressOf)),
		prefixes("aliases", f, each(translated, aliasOf)),
		translation("alias_local", local, aliasOf, addressOf),
	}
}

// ofPeer is true for what is reached by a gateway: other gateways send there without a node between.
func (n *node) ofPeer(a netip.Addr) bool {
	return slices.ContainsFunc(n.networks, func(net network) bool { return net.Here.Contains(a) })
}

// nodeAddresses are those of all nodes: what a peer sends to any others that are no pods' leaves the gateway's node as the peer's, and may
// come by other nodes.
func (n *node) nodeAddresses() map[netip.Addr]bool {
	out := map[netip.Addr]bool{}
	for _, m := range n.members {
		for _, a := range m.nodeAddresses() {
			out[a] = true
		}
	}
	return out
}

// serviceSets translate cluster IPs, and aliases of cluster IPs, to what is ready behind them, and say which ports these are; some
// is false where there is no such cluster IP.
func (n *node) serviceSets(f datapath.Family) (sets []datapath.Set, some bool) {
	key := []datapath.Type{datapath.TypeAddress, datapath.TypeProtocol, datapath.TypePort}
	value := []datapath.Type{datapath.TypeAddress, datapath.TypePort}
	direct := datapath.Set{Name: "cluster_ips", Key: key, Value: value}
	alias := datapath.Set{Name: "alias_services", Key: key, Value: value}
	ports := datapath.Set{Name: "cluster_ports", Key: key}
	var known []netip.Prefix
	seen := map[string]bool{}
	for _, a := range n.aliases {
		if datapath.FamilyOf(a.Alias) != f || !contains(n.services, a.Address) {
			continue
		}
		for _, s := range n.clusterIPs {
			if !slices.Contains(s.ClusterIPs, a.Address) {
				continue
			}
			known = append(known, host(a.Address))
			for _, p := range s.Ports {
				to := n.endpoint(a.Address, p)
				id := fmt.Sprint(a.Address, p.Protocol, p.Port)
				if !to.IsValid() || seen[id] {
					continue
				}
				seen[id] = true
				target := []datapath.Value{datapath.Addr(to.Addr()), datapath.Port(to.Port())}
				port := []datapath.Value{datapath.ProtocolValue(p.Protocol), datapath.Port(p.Port)}
				at := slices.Concat([]datapath.Value{datapath.Addr(a.Address)}, port)
				direct.Elements = append(direct.Elements, datapath.Element{Key: at, Value: target})
				ports.Elements = append(ports.Elements, datapath.Element{Key: at})
				alias.Elements = append(alias.Elements, datapath.Element{Key: slices.Concat([]datapath.Value{datapath.Addr(a.Alias)}, port), Value: target})
			}
		}
	}
	return []datapath.Set{direct, alias, ports, prefixes("cluster_services", f, known)}, len(known) > 0
}

// endpoint chooses one that is ready, on each node for itself: so they share the work, and keep their choice while others
// come and go.
func (n *node) endpoint(of netip.Addr, p ServicePort) netip.AddrPort {
	var best netip.AddrPort
	var least [sha256.Size]byte
	for _, e := range p.Endpoints {
		if !usable(e.Addr()) || datapath.FamilyOf(e.Addr()) != datapath.FamilyOf(of) {
			continue
		}
		weight := sha256.Sum256(fmt.Append(nil, n.name, " ", of, " ", p.Protocol, " ", p.Port, " ", e))
		if !best.IsValid() || slices.Compare(weight[:], least[:]) < 0 {
			best, least = e, weight
		}
	}
	return best
}

// strayChains let nobody pass for a peer: what is a peer's comes by the fabric, and to each node by that alone. This is before connection tracking,
// whose flows are not for others to end. What processes of the node tell each other is theirs. The other end of a tunnel may have an address of
// a peer, too, and whether a datagram is from there only its destination says, once that is translated: no datagram ends a flow, though it may
// keep one.
func strayChains() []datapath.Chain {
	stray := rule{notFrom(names.FabricDevice), notFrom("lo"), in("peers", datapath.Source), notIn("beyond", datapath.Destination)}
	return []datapath.Chain{
		base("stray", datapath.Filter, datapath.Prerouting, beforeTracking,
			with(stray, protocol(datapath.UDP), accept), refuse(CounterStray, stray...),
		),
		base("stray_datagram", datapath.Filter, datapath.Prerouting, afterDestinationNAT,
			refuse(CounterStray, with(stray, notIn("own_gateways", datapath.Destination))...),
		),
	}
}

// aliasChains translate aliases for this cluster's own nodes and pods, and cluster IPs for peers.
func aliasChains() []datapath.Chain {
	port := []datapath.Field{datapath.Destination, datapath.L4Protocol, datapath.DestinationPort}
	local := []rule{
		{datapath.TranslateDestination{Map: "alias_services", Key: port}},
		{datapath.TranslateDestination{Map: "alias_local", Key: []datapath.Field{datapath.Destination}}},
	}
	peers := rule{from(names.FabricDevice), datapath.TranslateDestination{Map: "cluster_ips", Key: port}}
	return []datapath.Chain{
		base("alias", datapath.NAT, datapath.Prerouting, aliasNAT, slices.Concat([]rule{peers}, local)...),
		base("alias_out", datapath.NAT, datapath.Output, aliasNAT, local...),
	}
}

// guardChains let peers begin nothing but what is meant for them: before any translation, since those are for others. Of a
// Service that is known that is its ports.
func guardChains(services bool) []datapath.Chain {
	fresh := []rule{
		refuse(CounterFreshSource, notIn("peers", datapath.Source)),
		refuse(CounterFreshElsewhere, in("own_gateways", datapath.Destination)), // these are pods, too, and answer as such
	}
	if services {
		fresh = append(fresh,
			rule{in("cluster_ports", datapath.Destination, datapath.L4Protocol, datapath.DestinationPort), accept},
			refuse(CounterFreshElsewhere, in("cluster_services", datapath.Destination)),
		)
	}
	fresh = append(fresh,
		rule{in("exposed", datapath.Destination), accept}, // first: where kube-proxy uses IPVS, cluster IPs are local
		refuse(CounterFreshLocal, datapath.Word{Field: datapath.DestinationScope, Word: datapath.Local}),
		rule{in("pods", datapath.Destination), accept},
		refuse(CounterFreshElsewhere),
	)
	return []datapath.Chain{
		base("guard", datapath.Filter, datapath.Prerouting, beforeNAT,
			rule{
				from(names.FabricDevice), datapath.Word{Field: datapath.FlowState, Not: true, Word: datapath.Established},
				datapath.Word{Field: datapath.FlowState, Not: true, Word: datapath.Related}, goTo("fresh"),
			},
		),
		chain("fresh", fresh...),
	}
}

// postChains give the sources by which peers know who speaks: pods keep theirs if they meant the peer or a Service, all else has the
// node's address. So has who asks a gateway of a peer: the node's probes have a source that is nobody's. Nothing translates after that.
func (n *node) postChains(f datapath.Family) []datapath.Chain {
	leave := []rule{{
		datapath.Word{Field: datapath.SourceScope, Not: true, Word: datapath.Local}, notIn("gateways", datapath.Destination),
		in("pods", datapath.Source), in("direct", datapath.OriginalDestination), datapath.TranslateSource{Identity: true},
	}}
	if a := n.self.externalOf(f); a.IsValid() {
		leave = append(leave, rule{datapath.TranslateSource{To: host(a)}})
	} else {
		leave = append(leave, refuse(CounterNoSource))
	}
	fromPeer := in("peers", datapath.OriginalSource)
	return []datapath.Chain{
		base("post", datapath.NAT, datapath.Postrouting, nodeSourceNAT,
			rule{into(names.FabricDevice), goTo("leave")},
			rule{fromPeer, in("services", datapath.OriginalDestination), datapath.Masquerade{}},
			rule{fromPeer, in("masquerade", datapath.Destination), datapath.Masquerade{}},
			rule{
				datapath.Word{Field: datapath.FlowStatus, Word: datapath.Translated},
				in("aliases", datapath.OriginalDestination), datapath.Masquerade{},
			},
		),
		chain("leave", leave...),
	}
}
