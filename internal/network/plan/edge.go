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

// table is the table of nftables of one family. Inside of a gateway all addresses are those that this cluster knows: the
// peer's are translated as they come in, before anything else, and as they go out, after all else.
func (g *gateway) table(f datapath.Family) datapath.Table {
	t := datapath.Table{Family: f, Name: datapath.TableName}
	if f == g.outer {
		same, other := g.speakers(g.mouths())
		t.Sets = append(t.Sets, prefixes("nodes", f, g.nodes()), same, other)
		t.Chains = append(t.Chains, g.outerChains(rule{in("nodes", datapath.Source), datapath.Untracked{}, accept})...)
	}
	// Pods have an address that peers use directly, too. Which one a peer meant must be remembered for those that have an alias.
	var stateless, pods []Alias
	for _, a := range g.shown() {
		switch {
		case datapath.FamilyOf(a.Alias) != f:
		case contains(g.pods, a.Address):
			pods = append(pods, a)
		default:
			stateless = append(stateless, a)
		}
	}
	t.Sets = append(t.Sets, g.sets(f, stateless)...)
	t.Chains = append(t.Chains, g.entryChains(f, len(pods) > 0)...)
	t.Chains = append(t.Chains, g.innerChains(f)...)
	t.Chains = append(t.Chains, g.exitChains(f)...)
	if len(pods) > 0 {
		t.Sets = append(t.Sets,
			prefixes("pod_aliases", f, each(pods, aliasOf)),
			prefixes("aliased_pods", f, each(pods, addressOf)),
			translation("pod_alias_in", pods, aliasOf, addressOf),
		)
		t.Chains = append(t.Chains, base("pods", datapath.NAT, datapath.Prerouting, destinationNAT,
			rule{from(names.TunnelDevice), datapath.TranslateDestination{Map: "pod_alias_in", Key: []datapath.Field{datapath.Destination}}},
		))
	}
	finish(&t)
	return t
}

// closed is the table of a family that neither the peer nor the outer network has. The pod forwards that, too, if its neighbours ask, and is no
// way for it.
func closed(f datapath.Family) datapath.Table {
	t := datapath.Table{Family: f, Name: datapath.TableName}
	forward := base("forward", datapath.Filter, datapath.Forward, filter, refuse(CounterForward))
	forward.Policy = datapath.Drop
	t.Chains = append(t.Chains, forward)
	finish(&t)
	return t
}

// mouths are the other gateways, each for its peer, and for itself where it tells of errors.
func (g *gateway) mouths() []speaker {
	var out []speaker
	for _, o := range g.neighbours() {
		of := slices.DeleteFunc(slices.Clone(g.others), func(n network) bool { return n.peer != o.Peer })
		s := speaker{outer: o.Active}
		for _, f := range g.families {
			s.inner = slices.Concat(s.inner, here(of, f), hosts(g.unknownSource(f)))
		}
		out = append(out, s)
	}
	return out
}

// nodes are the addresses with which nodes talk to this gateway.
func (g *gateway) nodes() []netip.Prefix {
	var out []netip.Prefix
	for _, m := range g.reached() {
		out = append(out, hosts(g.outerOf(m))...)
	}
	return out
}

func (g *gateway) sets(f datapath.Family, aliases []Alias) []datapath.Set {
	allowed := slices.Clone(g.pods)
	for _, m := range g.reached() {
		allowed = append(allowed, hosts(m.External...)...)
	}
	return []datapath.Set{
		prefixes("own", f, slices.Concat(g.pods, g.external)),
		prefixes("other_peers", f, here(g.others, f)),
		prefixes("allowed", f, allowed),
		prefixes("alias_spec", f, each(aliases, addressOf)),
		translation("alias_in", aliases, aliasOf, addressOf),
		translation("alias_out", aliases, addressOf, aliasOf),
	}
}

// entryChains have what comes in. A source is translated once: where one network of a peer is shown under the address of
// another, a second rule must not see the result of the first.
func (g *gateway) entryChains(f datapath.Family, pods bool) []datapath.Chain {
	fromFabric := []rule{with(icmpErrors(f), accept)} // from whomever on the way, and maybe about a flow that has state
	if pods {
		fromFabric = append(fromFabric, rule{in("aliased_pods", datapath.Source), accept})
	}
	fromFabric = append(fromFabric,
		rule{in("own", datapath.Source), datapath.Untracked{}, accept},
		rule{in("alias_spec", datapath.Source), datapath.Untracked{}, accept},
	)
	if g.unknownSource(f).IsValid() { // else there is nothing to show them under
		fromFabric = append(fromFabric, rule{in("other_peers", datapath.Source), accept})
	}
	comes := []rule{{from(names.TunnelDevice), goTo("from_peer")}, {from(names.FabricDevice), goTo("from_fabric")}}
	if f == datapath.IPv4 { // the ends of the tunnel talk by that alone
		comes = append(comes, refuse(CounterInput, notFrom("lo"), within(datapath.Destination, tunnelNetwork)))
	}
	chains := []datapath.Chain{
		base("in", datapath.Filter, datapath.Prerouting, beforeAll, comes...),
		chain("from_fabric", append(fromFabric, refuse(CounterFabricSource))...),
		chain("from_peer", g.fromPeer(f)...),
	}
	if f == datapath.IPv4 {
		chains = append(chains, g.fromLink())
	}
	return append(chains, g.admit(f, pods), g.quotedIn(f))
}

func (g *gateway) fromPeer(f datapath.Family) []rule {
	var rules []rule
	if f == datapath.IPv4 {
		rules = append(rules, rule{within(datapath.Source, tunnelNetwork), goTo("from_link")})
	}
	for _, n := range g.own {
		if familyOf(n.Here) == f {
			rules = append(rules, append(translate(datapath.Source, n.There, n.Here), goTo("admit")))
		}
	}
	return append(rules, refuse(CounterPeerSource))
}

// fromLink has what the peer's gateway sends as itself: checks of the connection, and errors, if it does not give them its
// address in front of peers.
func (g *gateway) fromLink() datapath.Chain {
	rules := []rule{{within(datapath.Destination, tunnelNetwork), accept}}
	i := slices.IndexFunc(g.own, func(n network) bool { return n.external && familyOf(n.Here) == datapath.IPv4 })
	if i >= 0 {
		rules = append(rules, with(icmpErrors(datapath.IPv4), set(datapath.Source, host(g.own[i].Here.Addr())), goTo("admit")))
	}
	return chain("from_link", append(rules, refuse(CounterPeerSource))...)
}

// admit lets the peer reach what it may: aliases, pods, nodes by their address in front of peers, and this gateway by its own.
func (g *gateway) admit(f datapath.Family, pods bool) datapath.Chain {
	rules := []rule{
		with(icmpErrors(f), jump("quoted_in")),
		{mapped(datapath.Destination, "alias_in"), datapath.Untracked{}, accept},
	}
	if pods {
		rules = append(rules, rule{in("pod_aliases", datapath.Destination), accept}, rule{in("aliased_pods", datapath.Destination), accept})
	}
	if a := g.unknownSource(f); a.IsValid() {
		rules = append(rules, rule{within(datapath.Destination, host(a)), accept})
	}
	if self := g.self(f); self.IsValid() { // whose answers go by the main table: strict reverse path filters would drop it uncounted
		rules = append(rules, refuse(CounterInput, within(datapath.Destination, self)))
	}
	rules = append(rules, rule{in("allowed", datapath.Destination), datapath.Untracked{}, accept}, refuse(CounterPeerDestination))
	return chain("admit", rules...)
}

// quotedIn translates what an error quotes: a packet of ours, so the other way round.
func (g *gateway) quotedIn(f datapath.Family) datapath.Chain {
	rules := []rule{{mapped(datapath.QuotedSource, "alias_in")}}
	for _, n := range g.own {
		if familyOf(n.Here) == f && n.Here != n.There {
			rules = append(rules, append(translate(datapath.QuotedDestination, n.There, n.Here), returning))
		}
	}
	return chain("quoted_in", rules...)
}

// innerChains have what passes: a gateway is a way between the fabric and the tunnel, for nothing else. To itself go checks,
// echoes and errors, by the addresses that are asked for them: that of its pod is among those of pods, and nothing there answers peers.
func (g *gateway) innerChains(f datapath.Family) []datapath.Chain {
	forward := base("forward", datapath.Filter, datapath.Forward, filter,
		rule{protocol(datapath.TCP), datapath.SYN{}, datapath.ClampMSS{}},
		rule{from(names.FabricDevice), into(names.TunnelDevice), accept},
		rule{from(names.TunnelDevice), into(names.FabricDevice), accept},
		refuse(CounterForward),
	)
	forward.Policy = datapath.Drop
	var self []rule
	if a := g.unknownSource(f); a.IsValid() {
		self = append(self, with(icmpEcho(f), within(datapath.Destination, host(a)), accept))
	}
	if f == datapath.IPv4 {
		self = append(self, with(icmpEcho(f), within(datapath.Destination, tunnelNetwork), accept), rule{
			from(names.TunnelDevice), within(datapath.Source, tunnelNetwork), within(datapath.Destination, tunnelNetwork),
			protocol(datapath.UDP), toPort(cmp.Or(g.in.ProbePort, names.ConnectionCheckPort)), accept,
		})
	}
	return []datapath.Chain{
		forward,
		base("input", datapath.Filter, datapath.Input, filter,
			rule{from(names.TunnelDevice), goTo("to_self")},
			rule{from(names.FabricDevice), goTo("to_self")},
		),
		chain("to_self", append(self, refuse(CounterInput))...),
	}
}

// exitChains have what goes out. Who is from another peer and has an alias leaves under it; else under this gateway's address,
// which takes state.
func (g *gateway) exitChains(f datapath.Family) []datapath.Chain {
	var chains []datapath.Chain
	toPeer := []rule{with(icmpErrors(f), jump("quoted_out"))}
	if f == datapath.IPv4 {
		toPeer = append(toPeer, rule{within(datapath.Source, tunnelNetwork), within(datapath.Destination, tunnelNetwork), accept})
	}
	toPeer = append(toPeer, rule{mapped(datapath.Source, "alias_out")})
	if a := g.unknownSource(f); a.IsValid() {
		chains = append(chains, base("unknown", datapath.NAT, datapath.Postrouting, sourceNAT,
			rule{into(names.TunnelDevice), in("other_peers", datapath.Source), notIn("alias_spec", datapath.Source), datapath.TranslateSource{To: host(a)}},
		))
		toPeer = append(toPeer, with(icmpErrors(f), notIn("own", datapath.Source), set(datapath.Source, host(a))))
	}
	toPeer = append(toPeer, refuse(CounterExitSource, notIn("own", datapath.Source)))
	quoted := []rule{{mapped(datapath.QuotedDestination, "alias_out")}}
	for _, n := range g.own {
		if familyOf(n.Here) != f {
			continue
		}
		toPeer = append(toPeer, append(translate(datapath.Destination, n.Here, n.There), accept))
		if n.Here != n.There {
			quoted = append(quoted, append(translate(datapath.QuotedSource, n.Here, n.There), returning))
		}
	}
	return append(chains,
		base("out", datapath.Filter, datapath.Postrouting, afterAll, rule{into(names.TunnelDevice), goTo("to_peer")}),
		chain("to_peer", append(toPeer, refuse(CounterExitDestination))...),
		chain("quoted_out", quoted...),
	)
}

// translate matches a network and puts another one in its place, where they differ.
func translate(field datapath.Field, is, becomes netip.Prefix) rule {
	if is == becomes {
		return rule{within(field, is)}
	}
	return rule{within(field, is), set(field, becomes)}
}

// track has chains leave packets to connection tracking: users' rules that ask it need all of them there.
func track(chains []datapath.Chain, in ...string) {
	for _, c := range chains {
		if !slices.Contains(in, c.Name) {
			continue
		}
		for i, r := range c.Rules {
			c.Rules[i] = slices.DeleteFunc(r, func(s datapath.Statement) bool {
				_, untracked := s.(datapath.Untracked)
				return untracked
			})
		}
	}
}
