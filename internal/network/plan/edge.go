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

// edgeTable returns the nftables table of one family. Inside a gateway all addresses are the addresses known in this cluster: the peer's addresses
// are translated first of all on the way in, and last of all on the way out.
func (g *gateway) edgeTable(f datapath.Family) datapath.Table {
	t := datapath.Table{Family: f, Name: datapath.TableName}
	if f == g.outer {
		same, other := g.allowedSourceSets(g.allowedSources())
		t.Sets = append(t.Sets, newPrefixSet("nodes", f, g.nodePrefixes()), same, other)
		t.Chains = append(t.Chains, g.outerChains(rule{lookupIn("nodes", datapath.Source), datapath.Notrack{}, accept})...)
	}
	// A pod with a translated IP is also reachable at its own address, and an IP at its previous addresses. Conntrack remembers the address used by
	// the peer: these addresses need stateful NAT.
	var stateless, tracked, pods []TranslatedIP
	for _, a := range g.publishedIPs() {
		switch {
		case datapath.FamilyOf(a.Alias) != f:
		case containsAddr(g.pods, a.Address):
			pods, tracked = append(pods, a), append(tracked, a.withPrevious()...)
		default:
			stateless, tracked = append(stateless, a), append(tracked, a.withPrevious()[1:]...)
		}
	}
	t.Sets = append(t.Sets, g.nftSets(f, stateless)...)
	t.Chains = append(t.Chains, g.entryChains(f, len(tracked) > 0)...)
	t.Chains = append(t.Chains, g.innerChains(f)...)
	t.Chains = append(t.Chains, g.exitChains(f, len(tracked) > 0)...)
	if len(tracked) > 0 {
		t.Sets = append(t.Sets,
			newPrefixSet("tracked_aliases", f, addressesOf(tracked, aliasOf)),
			newPrefixSet("tracked_addresses", f, addressesOf(tracked, addressOf)),
			newPrefixSet("tracked_pods", f, addressesOf(pods, addressOf)),
			translationMap("tracked_alias_in", tracked, aliasOf, addressOf),
		)
		t.Chains = append(t.Chains, newBaseChain("tracked", datapath.NAT, datapath.Prerouting, destinationNAT,
			rule{fromDevice(names.TunnelDevice), datapath.TranslateDestination{Map: "tracked_alias_in", Key: []datapath.Field{datapath.Destination}}},
		))
	}
	sortTable(&t)
	return t
}

// closedTable returns the table of a family used neither by the peer nor by the outer network. The pod would forward packets of this family from its
// neighbours, too, so the table drops them.
func closedTable(f datapath.Family) datapath.Table {
	t := datapath.Table{Family: f, Name: datapath.TableName}
	forward := newBaseChain("forward", datapath.Filter, datapath.Forward, filter, dropCounted(CounterForward))
	forward.Policy = datapath.Drop
	t.Chains = append(t.Chains, forward)
	sortTable(&t)
	return t
}

// allowedSources returns the gateways of other peers, each allowed the networks of its peer, and the gateways' own address for ICMP errors
// (anti-spoofing).
func (g *gateway) allowedSources() []allowedSource {
	var out []allowedSource
	for _, o := range g.otherTunnels() {
		of := slices.DeleteFunc(slices.Clone(g.others), func(n peerNetwork) bool { return n.peer != o.Peer })
		var inner []netip.Prefix
		for _, f := range g.families {
			inner = slices.Concat(inner, localPrefixes(of, f), hostPrefixes(g.unknownSource(f)))
		}
		for _, a := range o.allAddresses() {
			out = append(out, allowedSource{a, inner})
		}
	}
	return out
}

// nodePrefixes returns the source addresses of nodes towards this gateway.
func (g *gateway) nodePrefixes() []netip.Prefix {
	var out []netip.Prefix
	for _, m := range g.reachedNodes() {
		out = append(out, hostPrefixes(g.outerOf(m))...)
	}
	return out
}

func (g *gateway) nftSets(f datapath.Family, stateless []TranslatedIP) []datapath.Set {
	allowed := slices.Clone(g.pods)
	for _, m := range g.reachedNodes() {
		allowed = append(allowed, hostPrefixes(m.External...)...)
	}
	return []datapath.Set{
		newPrefixSet("own", f, slices.Concat(g.pods, g.external)),
		newPrefixSet("other_peers", f, localPrefixes(g.others, f)),
		newPrefixSet("allowed", f, allowed),
		newPrefixSet("alias_spec", f, addressesOf(stateless, addressOf)),
		translationMap("alias_in", stateless, aliasOf, addressOf),
		translationMap("alias_out", stateless, addressOf, aliasOf),
	}
}

// entryChains returns the chains for incoming packets. A source is translated once: if the local network of a peer is a remote network of
// another, a second rule must not match the result of the first.
func (g *gateway) entryChains(f datapath.Family, tracked bool) []datapath.Chain {
	fromFabric := []rule{appendStatements(icmpErrors(f), accept)} // from any router on the path, possibly about a tracked connection
	if tracked {
		fromFabric = append(fromFabric, rule{lookupIn("tracked_addresses", datapath.Source), accept})
	}
	fromFabric = append(fromFabric,
		rule{lookupIn("own", datapath.Source), datapath.Notrack{}, accept},
		rule{lookupIn("alias_spec", datapath.Source), datapath.Notrack{}, accept},
	)
	if g.unknownSource(f).IsValid() { // else there is no address for SNAT
		fromFabric = append(fromFabric, rule{lookupIn("other_peers", datapath.Source), accept})
	}
	comes := []rule{{fromDevice(names.TunnelDevice), goTo("from_peer")}, {fromDevice(names.FabricDevice), goTo("from_fabric")}}
	if f == datapath.IPv4 { // tunnel addresses are valid on the tunnel only
		comes = append(comes, dropCounted(CounterInput, notFrom("lo"), isWithin(datapath.Destination, tunnelNetwork)))
	}
	chains := []datapath.Chain{
		newBaseChain("in", datapath.Filter, datapath.Prerouting, beforeAll, comes...),
		newChain("from_fabric", append(fromFabric, dropCounted(CounterFabricSource))...),
		newChain("from_peer", g.fromPeer(f)...),
	}
	if f == datapath.IPv4 {
		chains = append(chains, g.fromLink())
	}
	return append(chains, g.admitChain(f, tracked), g.quotedIn(f))
}

// fromPeer returns the rules for packets from the tunnel: they translate allowed sources (stateless NAT), and drop all others
// (anti-spoofing).
func (g *gateway) fromPeer(f datapath.Family) []rule {
	var rules []rule
	if f == datapath.IPv4 {
		rules = append(rules, rule{isWithin(datapath.Source, tunnelNetwork), goTo("from_link")})
	}
	for _, n := range g.own {
		if familyOf(n.Local) == f {
			rules = append(rules, append(translatePrefix(datapath.Source, n.Remote, n.Local), goTo("admit")))
		}
	}
	return append(rules, dropCounted(CounterPeerSource))
}

// fromLink returns the chain for packets from the peer's gateway itself: connection checks, and those ICMP errors that the gateway does not send from
// its external address.
func (g *gateway) fromLink() datapath.Chain {
	rules := []rule{{isWithin(datapath.Destination, tunnelNetwork), accept}}
	i := slices.IndexFunc(g.own, func(n peerNetwork) bool { return n.external && familyOf(n.Local) == datapath.IPv4 })
	if i >= 0 {
		rules = append(rules, appendStatements(icmpErrors(datapath.IPv4), setPrefix(datapath.Source, hostPrefix(g.own[i].Local.Addr())), goTo("admit")))
	}
	return newChain("from_link", append(rules, dropCounted(CounterPeerSource))...)
}

// admitChain returns the chain of the destinations allowed for the peer: translated IPs, pods, nodes by their external addresses, and this
// gateway by its own.
func (g *gateway) admitChain(f datapath.Family, tracked bool) datapath.Chain {
	rules := []rule{
		appendStatements(icmpErrors(f), jumpTo("quoted_in")),
		{setMapped(datapath.Destination, "alias_in"), datapath.Notrack{}, accept},
	}
	if tracked {
		rules = append(rules, rule{lookupIn("tracked_aliases", datapath.Destination), accept}, rule{lookupIn("tracked_pods", datapath.Destination), accept})
	}
	if a := g.unknownSource(f); a.IsValid() {
		rules = append(rules, rule{isWithin(datapath.Destination, hostPrefix(a)), accept})
	}
	if self := g.selfPrefix(f); self.IsValid() { // replies from this address are routed by the main table: a strict reverse path filter would drop the packets uncounted
		rules = append(rules, dropCounted(CounterInput, isWithin(datapath.Destination, self)))
	}
	rules = append(rules, rule{lookupIn("allowed", datapath.Destination), datapath.Notrack{}, accept}, dropCounted(CounterPeerDestination))
	return newChain("admit", rules...)
}

// quotedIn returns the chain for the translation of the packet quoted by an ICMP error: the quoted packet was sent from this cluster, in the opposite
// direction.
func (g *gateway) quotedIn(f datapath.Family) datapath.Chain {
	rules := []rule{{setMapped(datapath.QuotedSource, "alias_in")}}
	for _, n := range g.own {
		if familyOf(n.Local) == f && n.Local != n.Remote {
			rules = append(rules, append(translatePrefix(datapath.QuotedDestination, n.Remote, n.Local), returning))
		}
	}
	return newChain("quoted_in", rules...)
}

// innerChains returns the filter chains for inner packets: a gateway forwards between the fabric and the tunnel only. Input allows checks, echoes and
// errors at the addresses meant for them; the address of the gateway's pod is a pod address, and no process in the pod answers peers.
func (g *gateway) innerChains(f datapath.Family) []datapath.Chain {
	forward := newBaseChain("forward", datapath.Filter, datapath.Forward, filter,
		rule{isProtocol(datapath.TCP), datapath.SYN{}, datapath.ClampMSS{}},
		rule{fromDevice(names.FabricDevice), toDevice(names.TunnelDevice), accept},
		rule{fromDevice(names.TunnelDevice), toDevice(names.FabricDevice), accept},
		dropCounted(CounterForward),
	)
	forward.Policy = datapath.Drop
	var self []rule
	if a := g.unknownSource(f); a.IsValid() {
		self = append(self, appendStatements(icmpEcho(f), isWithin(datapath.Destination, hostPrefix(a)), accept))
	}
	if f == datapath.IPv4 {
		self = append(self, appendStatements(icmpEcho(f), isWithin(datapath.Destination, tunnelNetwork), accept), rule{
			fromDevice(names.TunnelDevice), isWithin(datapath.Source, tunnelNetwork), isWithin(datapath.Destination, tunnelNetwork),
			isProtocol(datapath.UDP), toPort(cmp.Or(g.in.ProbePort, names.ConnectionCheckPort)), accept,
		})
	}
	return []datapath.Chain{
		forward,
		newBaseChain("input", datapath.Filter, datapath.Input, filter,
			rule{fromDevice(names.TunnelDevice), goTo("to_self")},
			rule{fromDevice(names.FabricDevice), goTo("to_self")},
		),
		newChain("to_self", append(self, dropCounted(CounterInput))...),
	}
}

// exitChains returns the chains for outgoing packets. A source of another peer leaves under its translated IP, if allocated, else under this
// gateway's address by stateful SNAT.
func (g *gateway) exitChains(f datapath.Family, tracked bool) []datapath.Chain {
	var chains []datapath.Chain
	toPeer := []rule{appendStatements(icmpErrors(f), jumpTo("quoted_out"))}
	if f == datapath.IPv4 {
		toPeer = append(toPeer, rule{isWithin(datapath.Source, tunnelNetwork), isWithin(datapath.Destination, tunnelNetwork), accept})
	}
	toPeer = append(toPeer, rule{setMapped(datapath.Source, "alias_out")})
	foreign := []datapath.Statement{notIn("own", datapath.Source)}
	if tracked {
		foreign = append(foreign, notIn("tracked_aliases", datapath.Source)) // the previous ones are of no network of today
	}
	if a := g.unknownSource(f); a.IsValid() {
		chains = append(chains, newBaseChain("unknown", datapath.NAT, datapath.Postrouting, sourceNAT,
			rule{toDevice(names.TunnelDevice), lookupIn("other_peers", datapath.Source), notIn("alias_spec", datapath.Source), datapath.TranslateSource{To: hostPrefix(a)}},
		))
		toPeer = append(toPeer, appendStatements(icmpErrors(f), append(slices.Clone(foreign), setPrefix(datapath.Source, hostPrefix(a)))...))
	}
	toPeer = append(toPeer, dropCounted(CounterExitSource, foreign...))
	quoted := []rule{{setMapped(datapath.QuotedDestination, "alias_out")}}
	for _, n := range g.own {
		if familyOf(n.Local) != f {
			continue
		}
		toPeer = append(toPeer, append(translatePrefix(datapath.Destination, n.Local, n.Remote), accept))
		if n.Local != n.Remote {
			quoted = append(quoted, append(translatePrefix(datapath.QuotedSource, n.Local, n.Remote), returning))
		}
	}
	return append(chains,
		newBaseChain("out", datapath.Filter, datapath.Postrouting, afterAll, rule{toDevice(names.TunnelDevice), goTo("to_peer")}),
		newChain("to_peer", append(toPeer, dropCounted(CounterExitDestination))...),
		newChain("quoted_out", quoted...),
	)
}

// translatePrefix remaps by stateless NAT: the rule matches a network and replaces its prefix unless the prefixes are equal.
func translatePrefix(field datapath.Field, is, becomes netip.Prefix) rule {
	if is == becomes {
		return rule{isWithin(field, is)}
	}
	return rule{isWithin(field, is), setPrefix(field, becomes)}
}

// trackFlows removes notrack from the chains: users' rules that match conntrack need all packets tracked.
func trackFlows(chains []datapath.Chain, in ...string) {
	for _, c := range chains {
		if !slices.Contains(in, c.Name) {
			continue
		}
		for i, r := range c.Rules {
			c.Rules[i] = slices.DeleteFunc(r, func(s datapath.Statement) bool {
				_, untracked := s.(datapath.Notrack)
				return untracked
			})
		}
	}
}
