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

// peersTable is the routing table of nodes for peers.
const peersTable = 6091

// defaultRulePriority is the priority of the rule for peersTable: before the rules of CNIs for single pods.
const defaultRulePriority = 105

// nodePlan builds the plan for a node.
type nodePlan struct {
	*model
	self     ClusterNode
	name     string
	families []datapath.Family
	far      []netip.Addr // addresses of peers' gateways
	access   PodAccess
	taken    []ReservedPrefix // addresses of nodes
}

// Node returns the desired state of a node's network namespace, and the problems of the objects left out.
//
// A node without an external address sends nothing to peers: their networks are unreachable.
func Node(in NodeInput) (datapath.State, []Problem) {
	priority := in.RulePriority
	if priority <= 0 || priority >= mainPriority {
		priority = defaultRulePriority
	}
	n := nodePlan{model: newModel(in.Cluster, netip.Addr{}, Object{}), name: in.Name, access: in.Access, taken: in.Taken}
	n.self = n.nodeNamed(in.Name)
	n.families = familiesOf(n.wantsFamily)
	n.far = n.farGateways(in.Peers)
	var out datapath.State
	n.addFabric(&out)
	n.addRoutes(&out, priority)
	n.addProbes(&out, priority)
	for _, f := range n.families {
		out.Tables = append(out.Tables, n.nodeTable(f))
	}
	n.addUsers(&out, in.Cluster, userPlace{tables: []int{peersTable, probesTable}, before: priority})
	out.Sort()
	return out, sortedProblems(n.problems)
}

// wantsFamily reports whether there is state of a family.
func (n *nodePlan) wantsFamily(f datapath.Family) bool {
	return f == n.outer && n.self.identityAddr().IsValid() || len(localPrefixes(n.networks, f)) > 0 ||
		slices.ContainsFunc(n.held, func(p netip.Prefix) bool { return familyOf(p) == f }) ||
		slices.ContainsFunc(n.aliases, func(a TranslatedIP) bool { return datapath.FamilyOf(a.Alias) == f })
}

// addFabric adds the VXLAN and the neighbours for all gateways.
func (n *nodePlan) addFabric(out *datapath.State) {
	self := n.self.identityAddr()
	if !self.IsValid() {
		return
	}
	out.Links = append(out.Links, n.fabricLink(self, n.fabricMTU(0)))
	for _, a := range n.self.External {
		out.Addresses = append(out.Addresses, datapath.Address{Device: "lo", Prefix: hostPrefix(a)})
	}
	for _, a := range n.localGateways() {
		out.Neighbours = append(out.Neighbours, neighboursOf(a, a, n.families)...)
	}
}

// addRoutes adds the routes to peers via their gateways.
func (n *nodePlan) addRoutes(out *datapath.State, priority int) {
	for _, f := range n.families {
		out.Rules = append(out.Rules, datapath.Rule{Priority: priority, Family: f, Table: peersTable})
	}
	n.addOutside(out, priority)
	for _, net := range n.networks {
		out.Routes = append(out.Routes, unreachableRoute(peersTable, net.Local))
		g := n.tunnelOf(net.peer)
		if !g.Active.IsValid() || !n.self.identityAddr().IsValid() || !n.fitsMTU(net, g.Of, g.MTU) {
			continue
		}
		r := fabricRoute(peersTable, net.Local, g.Active)
		r.Source, r.MTU = n.self.externalOf(familyOf(net.Local)), g.MTU
		out.Routes = append(out.Routes, r)
	}
	for _, p := range n.held {
		out.Routes = append(out.Routes, unreachableRoute(peersTable, p))
	}
}

// addOutside routes packets from gateway pods themselves by the CNI's routes instead of ours and users': the remote gateway may have an
// address covered by the local CIDR of a peer.
func (n *nodePlan) addOutside(out *datapath.State, priority int) {
	gateways := n.localGateways()
	if len(gateways) == 0 || !slices.Contains(n.families, n.outer) {
		return
	}
	for _, a := range gateways {
		out.Rules = append(out.Rules, datapath.Rule{Priority: max(priority-2, 0), Family: n.outer, From: hostPrefix(a), GoTo: priority + 1})
	}
	out.Rules = append(out.Rules, datapath.Rule{Priority: priority + 1, Family: n.outer, Nop: true})
}

// nodeTable returns the nftables table of one family.
func (n *nodePlan) nodeTable(f datapath.Family) datapath.Table {
	t := datapath.Table{Family: f, Name: datapath.TableName}
	if f == n.outer {
		same, other := n.allowedSourceSets(n.allowedSources())
		t.Sets = append(t.Sets, same, other)
		outer := n.outerChains()
		// Packets only forwarded to a gateway on this node skip the anti-spoofing and NAT.
		outer[0].Rules = append(outer[0].Rules, appendStatements(overFabric(), datapath.Notrack{}))
		t.Chains = append(t.Chains, outer...)
	}
	t.Sets = append(t.Sets, n.nftSets(f)...)
	maps, services := n.serviceSets(f)
	t.Sets = append(t.Sets, maps...)
	t.Chains = append(t.Chains, strayChains()...)
	t.Chains = append(t.Chains, aliasChains()...)
	guarded, reachable := n.guardedPods(f)
	t.Sets = append(t.Sets, reachable...)
	t.Chains = append(t.Chains, guardChains(services, guarded)...)
	n.addIsolation(&t, f)
	t.Chains = append(t.Chains, n.postChains(f)...)
	sortTable(&t)
	return t
}

// localGateways returns the addresses of all replicas of the gateways.
func (n *nodePlan) localGateways() []netip.Addr {
	var out []netip.Addr
	for _, g := range n.tunnels {
		out = append(out, g.allAddresses()...)
	}
	return out
}

// allowedSources returns the gateways, each allowed the networks of its own peer only (anti-spoofing).
func (n *nodePlan) allowedSources() []allowedSource {
	var out []allowedSource
	for _, g := range n.tunnels {
		of := slices.DeleteFunc(slices.Clone(n.networks), func(net peerNetwork) bool { return net.peer != g.Peer })
		for _, a := range g.allAddresses() {
			out = append(out, allowedSource{a, append(localPrefixes(of, datapath.IPv4), localPrefixes(of, datapath.IPv6)...)})
		}
	}
	return out
}

func (n *nodePlan) nftSets(f datapath.Family) []datapath.Set {
	peers, nodes := localPrefixes(n.networks, f), n.nodeAddresses()
	var shown, hidden, beyond, local, translated []TranslatedIP // exposed to peers; exposed behind a node's address; possibly behind other nodes; for this cluster
	for _, a := range n.aliases {
		if datapath.FamilyOf(a.Alias) != f {
			continue
		}
		if !n.ofPeer(a.Address) {
			shown = append(shown, a)
			switch {
			case a.Masquerade:
				hidden = append(hidden, a)
			case !nodes[a.Address] && !containsAddr(n.pods, a.Address) && !containsAddr(n.services, a.Address):
				beyond = append(beyond, a)
			}
		}
		switch service := containsAddr(n.services, a.Address); {
		case service:
			translated = append(translated, a)
		case a.Masquerade:
			translated, local = append(translated, a), append(local, a)
		}
	}
	return []datapath.Set{
		newPrefixSet("peers", f, peers),
		newPrefixSet("gateways", f, hostPrefixes(n.far...)),
		newPrefixSet("own_gateways", f, hostPrefixes(n.localGateways()...)),
		newPrefixSet("pods", f, n.pods),
		newPrefixSet("services", f, n.services),
		newPrefixSet("direct", f, append(slices.Clone(n.services), peers...)),
		newPrefixSet("exposed", f, addressesOf(shown, addressOf)),
		newPrefixSet("masquerade", f, addressesOf(hidden, addressOf)),
		newPrefixSet("beyond", f, addressesOf(beyond, addressOf)),
		newPrefixSet("aliases", f, addressesOf(translated, aliasOf)),
		translationMap("alias_local", local, aliasOf, addressOf),
	}
}

// ofPeer reports whether the address is reached via a gateway: other gateways forward to the address without a node between.
func (n *nodePlan) ofPeer(a netip.Addr) bool {
	_, is := n.networkAt(a)
	return is
}

// nodeAddresses returns the addresses of all nodes. Packets from a peer to an address of neither a node nor a pod leave the gateway's node with the
// peer's source, and may pass further nodes.
func (n *nodePlan) nodeAddresses() map[netip.Addr]bool {
	out := map[netip.Addr]bool{}
	for _, m := range n.members {
		for _, a := range m.nodeAddresses() {
			out[a] = true
		}
	}
	return out
}

// serviceSets returns the sets for DNAT of cluster IPs, and of translated IPs of cluster IPs, to ready endpoints, and the set of served ports;
// some is false without any such cluster IP.
func (n *nodePlan) serviceSets(f datapath.Family) (sets []datapath.Set, some bool) {
	key := []datapath.Type{datapath.TypeAddress, datapath.TypeProtocol, datapath.TypePort}
	value := []datapath.Type{datapath.TypeAddress, datapath.TypePort}
	direct := datapath.Set{Name: "cluster_ips", Key: key, Value: value}
	alias := datapath.Set{Name: "alias_services", Key: key, Value: value}
	ports := datapath.Set{Name: "cluster_ports", Key: key}
	var known []netip.Prefix
	seen := map[string]bool{}
	for _, a := range n.aliases {
		if datapath.FamilyOf(a.Alias) != f || !containsAddr(n.services, a.Address) {
			continue
		}
		for _, s := range n.clusterIPs {
			if !slices.Contains(s.ClusterIPs, a.Address) {
				continue
			}
			known = append(known, hostPrefix(a.Address))
			for _, p := range s.Ports {
				to := n.chooseEndpoint(a.Address, p)
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
	return []datapath.Set{direct, alias, ports, newPrefixSet("cluster_services", f, known)}, len(known) > 0
}

// chooseEndpoint chooses a ready endpoint by rendezvous hashing with the node's name: nodes share the load, and a choice is stable while other
// endpoints change.
func (n *nodePlan) chooseEndpoint(of netip.Addr, p ServicePort) netip.AddrPort {
	var best netip.AddrPort
	var least [sha256.Size]byte
	for _, e := range p.Endpoints {
		if !isUsable(e.Addr()) || datapath.FamilyOf(e.Addr()) != datapath.FamilyOf(of) {
			continue
		}
		weight := sha256.Sum256(fmt.Append(nil, n.name, " ", of, " ", p.Protocol, " ", p.Port, " ", e))
		if !best.IsValid() || slices.Compare(weight[:], least[:]) < 0 {
			best, least = e, weight
		}
	}
	return best
}

// strayChains drops packets with a peer's source that arrive from outside the fabric (anti-spoofing): packets of peers reach a node by the fabric
// only. The chain runs before conntrack, so that spoofed packets cannot end connections. Packets between processes of the node are exempt. The remote
// gateway may have an address in a peer's local CIDR, too, and only the destination after DNAT tells whether a datagram comes from the remote
// gateway. Therefore UDP is checked after DNAT: a datagram never ends a connection, although a datagram may prolong a conntrack entry.
func strayChains() []datapath.Chain {
	stray := rule{notFrom(names.FabricDevice), notFrom("lo"), lookupIn("peers", datapath.Source), notIn("beyond", datapath.Destination)}
	return []datapath.Chain{
		newBaseChain("stray", datapath.Filter, datapath.Prerouting, beforeTracking,
			appendStatements(stray, isProtocol(datapath.UDP), accept), dropCounted(CounterStray, stray...),
		),
		newBaseChain("stray_datagram", datapath.Filter, datapath.Prerouting, afterDestinationNAT,
			dropCounted(CounterStray, appendStatements(stray, notIn("own_gateways", datapath.Destination))...),
		),
	}
}

// aliasChains returns the DNAT of translated IPs for this cluster's nodes and pods, and of cluster IPs for peers.
func aliasChains() []datapath.Chain {
	port := []datapath.Field{datapath.Destination, datapath.L4Protocol, datapath.DestinationPort}
	local := []rule{
		{datapath.TranslateDestination{Map: "alias_services", Key: port}},
		{datapath.TranslateDestination{Map: "alias_local", Key: []datapath.Field{datapath.Destination}}},
	}
	peers := rule{fromDevice(names.FabricDevice), datapath.TranslateDestination{Map: "cluster_ips", Key: port}}
	return []datapath.Chain{
		newBaseChain("alias", datapath.NAT, datapath.Prerouting, aliasNAT, slices.Concat([]rule{peers}, local)...),
		newBaseChain("alias_out", datapath.NAT, datapath.Output, aliasNAT, local...),
	}
}

// guardChains limits new connections of peers to pods and exposed destinations, before any NAT, because NAT rules are meant for other traffic. Of a
// known Service only its ports are allowed.
func guardChains(services bool, pods []rule) []datapath.Chain {
	fresh := []rule{
		dropCounted(CounterFreshSource, notIn("peers", datapath.Source)),
		dropCounted(CounterFreshElsewhere, lookupIn("own_gateways", datapath.Destination)), // gateways are pods, too, and would reply as such
	}
	if services {
		fresh = append(fresh,
			rule{lookupIn("cluster_ports", datapath.Destination, datapath.L4Protocol, datapath.DestinationPort), accept},
			dropCounted(CounterFreshElsewhere, lookupIn("cluster_services", datapath.Destination)),
		)
	}
	fresh = append(fresh,
		rule{lookupIn("exposed", datapath.Destination), accept}, // first: with kube-proxy in IPVS mode, cluster IPs are local
		dropCounted(CounterFreshLocal, datapath.Word{Field: datapath.DestinationScope, Word: datapath.Local}),
	)
	fresh = append(append(fresh, pods...), dropCounted(CounterFreshElsewhere))
	return []datapath.Chain{
		newBaseChain("guard", datapath.Filter, datapath.Prerouting, beforeNAT,
			rule{
				fromDevice(names.FabricDevice), datapath.Word{Field: datapath.FlowState, Not: true, Word: datapath.Established},
				datapath.Word{Field: datapath.FlowState, Not: true, Word: datapath.Related}, goTo("fresh"),
			},
		),
		newChain("fresh", fresh...),
	}
}

// postChains returns the SNAT to the source addresses known to peers: pods keep their address towards the peer or a Service, all remaining traffic
// gets the node's external address. The node's probes to peers' gateways also get the external address, because their source belongs to no pod. No
// NAT follows.
func (n *nodePlan) postChains(f datapath.Family) []datapath.Chain {
	leave := []rule{{
		datapath.Word{Field: datapath.SourceScope, Not: true, Word: datapath.Local}, notIn("gateways", datapath.Destination),
		lookupIn("pods", datapath.Source), lookupIn("direct", datapath.OriginalDestination), datapath.TranslateSource{Identity: true},
	}}
	if a := n.self.externalOf(f); a.IsValid() {
		leave = append(leave, rule{datapath.TranslateSource{To: hostPrefix(a)}})
	} else {
		leave = append(leave, dropCounted(CounterNoSource))
	}
	fromPeer := lookupIn("peers", datapath.OriginalSource)
	return []datapath.Chain{
		newBaseChain("post", datapath.NAT, datapath.Postrouting, nodeSourceNAT,
			rule{toDevice(names.FabricDevice), goTo("leave")},
			rule{fromPeer, lookupIn("services", datapath.OriginalDestination), datapath.Masquerade{}},
			rule{fromPeer, lookupIn("masquerade", datapath.Destination), datapath.Masquerade{}},
			rule{
				datapath.Word{Field: datapath.FlowStatus, Word: datapath.Translated},
				lookupIn("aliases", datapath.OriginalDestination), datapath.Masquerade{},
			},
		),
		newChain("leave", leave...),
	}
}
