// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"liqo.io/liqo/internal/datapath"
	"liqo.io/liqo/internal/names"
	"liqo.io/liqo/internal/prefix"
)

// model is the validated input: conflicting objects have been removed, and all that remains is valid for a kernel.
type model struct {
	pods, services, external []netip.Prefix
	networks                 []peerNetwork
	byLocal                  []peerNetwork  // networks by local address: they do not overlap there
	held                     []netip.Prefix // reserved prefixes without a peerNetwork
	tunnels                  []Tunnel
	members                  []ClusterNode
	aliases                  []TranslatedIP
	clusterIPs               []Service
	// outer is the address family of the packets between nodes and gateways.
	outer    datapath.Family
	problems []Problem
}

// peerNetwork is a network of a peer, with its local and remote CIDR.
type peerNetwork struct {
	prefix.Pair
	of       Object
	peer     PeerKey
	external bool
}

// reserved lists the prefixes with a special meaning on each host; they cannot be a peer's network.
var reserved = []ReservedPrefix{
	{netip.MustParsePrefix("0.0.0.0/8"), "this host"},
	{netip.MustParsePrefix("127.0.0.0/8"), "this host"},
	{netip.MustParsePrefix("169.254.0.0/16"), "links and tunnels"},
	{netip.MustParsePrefix("224.0.0.0/3"), "multicast"},
	{netip.MustParsePrefix("::/96"), "this host"},
	{netip.MustParsePrefix("fe80::/10"), "links"},
	{netip.MustParsePrefix("ff00::/8"), "multicast"},
}

// newModel validates the input. from is the address of a replica of the gateway of; for a node both are the zero value.
func newModel(c Cluster, from netip.Addr, of Object) *model {
	s := &model{clusterIPs: byObject(c.ClusterIPs, func(o Service) Object { return o.Of })}
	s.pods, s.services, s.external = s.ownPrefixes(c.Pods), s.ownPrefixes(c.Services), s.ownPrefixes(c.External)
	s.outer = outerFamily(c, from)
	owner := map[netip.Addr]Object{} // of the addresses of the fabric
	if isRoutable(from) {
		owner[from] = of
	}
	s.takeTunnels(c.Tunnels, owner)
	s.takeMembers(c.Members, owner)
	s.findStrays(c.Peers)
	taken := append(s.reservedPrefixes(from), c.Taken...)
	s.takeNetworks(c.Peers, slices.Clone(taken))
	s.reserve(c.Held, taken)
	s.takeAliases(c.Aliases)
	return s
}

// Refused returns the rejections: the parts of users' objects that no node and no gateway applies, and the reasons. outside are the IPs without
// masquerade of hosts outside of the cluster: an outside host sees the peer's address, and needs a route back.
func Refused(c Cluster) (problems []Problem, outside map[Object]bool) {
	s := newModel(c, netip.Addr{}, Object{})
	for _, n := range s.networks {
		if g := s.tunnelOf(n.peer); g.Of != (Object{}) {
			s.fitsMTU(n, g.Of, g.MTU)
		}
	}
	return sortedProblems(slices.DeleteFunc(s.problems, func(p Problem) bool { return p.Reason == "" })), s.findOutsideHosts(c)
}

func (s *model) findOutsideHosts(c Cluster) map[Object]bool {
	inside := slices.Concat(s.pods, s.services, c.Held)
	for _, m := range s.members {
		inside = append(append(inside, m.PodCIDRs...), hostPrefixes(m.nodeAddresses()...)...)
	}
	for _, t := range c.Taken {
		inside = append(inside, t.Prefix)
	}
	inside = prefixSet(inside)
	out := map[Object]bool{}
	for _, a := range s.aliases {
		if _, ofPeer := s.networkAt(a.Address); !a.Masquerade && !ofPeer && !setContains(inside, a.Address) {
			out[a.Of] = true
		}
	}
	return out
}

func (s *model) addProblem(of Object, format string, args ...any) {
	s.reject("", of, format, args...)
}

func (s *model) reject(reason string, of Object, format string, args ...any) {
	s.problems = append(s.problems, Problem{Of: of, Reason: reason, Message: fmt.Sprintf(format, args...)})
}

// ownPrefixes returns the networks of this cluster without reserved networks, and adds problems for the reserved networks.
func (s *model) ownPrefixes(in []netip.Prefix) []netip.Prefix {
	out, others := splitOwn(in)
	for _, p := range others {
		i := slices.IndexFunc(reserved, func(t ReservedPrefix) bool { return t.Prefix.Overlaps(p) })
		s.addProblem(Object{Kind: "Network", Name: p.String()}, "it is left out: it covers %s, %s", reserved[i].Prefix, reserved[i].By)
	}
	return out
}

// splitOwn splits the networks of a cluster, in order, into usable and reserved ones.
func splitOwn(in []netip.Prefix) (out, others []netip.Prefix) {
	for _, p := range prefixSet(in) {
		if slices.ContainsFunc(reserved, func(t ReservedPrefix) bool { return t.Prefix.Overlaps(p) }) {
			others = append(others, p)
			continue
		}
		out = append(out, p)
	}
	return out, others
}

// gatewayNetwork returns the external network of a cluster whose first address belongs to its gateways.
func gatewayNetwork(external []netip.Prefix, f datapath.Family) netip.Prefix {
	i := slices.IndexFunc(external, func(p netip.Prefix) bool { return familyOf(p) == f })
	if i < 0 {
		return netip.Prefix{}
	}
	return external[i]
}

// Gateways returns the local CIDR of the peer's network whose first address belongs to the peer's gateways, or the zero value.
func (p Peer) Gateways() netip.Prefix {
	external := slices.Clone(p.External)
	slices.SortFunc(external, func(a, b prefix.Pair) int { return a.Local.Compare(b.Local) }) // deterministic for any input order
	var remotePrefixes []netip.Prefix
	for _, pair := range external {
		remotePrefixes = append(remotePrefixes, pair.Remote)
	}
	remotePrefixes, _ = splitOwn(remotePrefixes)
	for _, f := range []datapath.Family{datapath.IPv4, datapath.IPv6} {
		first := gatewayNetwork(remotePrefixes, f)
		i := slices.IndexFunc(external, func(pair prefix.Pair) bool { return first.IsValid() && pair.Remote.Masked() == first })
		if i >= 0 {
			return external[i].Local
		}
	}
	return netip.Prefix{}
}

// outerFamily returns the family of the first address of the fabric: the first addresses of all pods are of one family.
func outerFamily(c Cluster, from netip.Addr) datapath.Family {
	if isRoutable(from) {
		return datapath.FamilyOf(from)
	}
	for _, g := range Gateways(c.Tunnels) {
		if isRoutable(g.Active) {
			return datapath.FamilyOf(g.Active)
		}
	}
	for _, m := range membersByRank(c.Members) {
		if isRoutable(m.Remote) {
			return datapath.FamilyOf(m.Remote)
		}
	}
	return datapath.IPv4
}

// takeTunnels accepts one gateway per peer and one gateway per address, because nodes identify the peer of a packet by the gateway's address.
func (s *model) takeTunnels(in []Tunnel, owner map[netip.Addr]Object) {
	byPeer := map[PeerKey]Object{}
	for _, g := range Gateways(in) {
		if first, ok := byPeer[g.Peer]; ok {
			s.reject(ReasonAnotherGateway, g.Of, "the peer has a gateway already: %s", first)
			continue
		}
		byPeer[g.Peer] = g.Of
		if !s.claimAddress(&g.Active, g.Of, owner) {
			g.Active = netip.Addr{}
		}
		g.Standby = slices.DeleteFunc(addressSet(g.Standby), func(a netip.Addr) bool { return a == g.Active || !s.claimAddress(&a, g.Of, owner) })
		if usable := UsableMTU(g.Asked); usable != g.Asked && g.Asked != 0 {
			s.reject(ReasonUnusableMTU, g.Of, "invalid MTU %d: using %d", g.Asked, usable)
		}
		g.MTU = UsableMTU(g.MTU)
		s.tunnels = append(s.tunnels, g)
	}
}

// findStrays rejects gateways whose peer has its Configuration in another namespace: no packet is routed to them.
func (s *model) findStrays(peers []Peer) {
	peers = peersByRank(peers)
	for _, g := range s.tunnels {
		if slices.ContainsFunc(peers, func(p Peer) bool { return p.Key == g.Peer }) {
			continue
		}
		i := slices.IndexFunc(peers, func(p Peer) bool { return p.Key.ClusterID == g.Peer.ClusterID })
		if i >= 0 {
			s.reject(ReasonConfigurationElsewhere, g.Of, "not in use: the effective Configuration of the peer is %s, and gateways must be in its namespace", peers[i].Of)
		}
	}
}

// claimAddress reports whether the address of a gateway is usable and not in use by another gateway.
func (s *model) claimAddress(a *netip.Addr, of Object, owner map[netip.Addr]Object) bool {
	first, seen := owner[*a]
	switch {
	case !isRoutable(*a):
		return false
	case datapath.FamilyOf(*a) != s.outer:
		s.addProblem(of, "%s is not of the family of the fabric, %s", *a, s.outer)
	case seen && first != of:
		s.addProblem(of, "%s is the address of %s", *a, first)
	default:
		owner[*a] = of
		return true
	}
	return false
}

func membersByRank(in []ClusterNode) []ClusterNode {
	return byRank(in, func(m ClusterNode) Object { return m.Of }, func(m ClusterNode) time.Time { return m.Since })
}

// takeMembers accepts the nodes of the fabric.
func (s *model) takeMembers(in []ClusterNode, owner map[netip.Addr]Object) {
	pods := map[netip.Prefix]Object{}
	for _, m := range membersByRank(in) {
		m.External = slices.DeleteFunc(addressSet(m.External), func(a netip.Addr) bool {
			first, seen := owner[a]
			if seen {
				s.addProblem(m.Of, "%s is the address of %s", a, first)
			} else {
				owner[a] = m.Of
			}
			return seen
		})
		m.External = slices.CompactFunc(m.External, func(b, a netip.Addr) bool { // a precedes b
			if datapath.FamilyOf(a) != datapath.FamilyOf(b) {
				return false
			}
			s.addProblem(m.Of, "%s is not used beside %s: a node has one address of a family", b, a)
			return true
		})
		m.PodCIDRs = slices.DeleteFunc(prefixSet(m.PodCIDRs), func(p netip.Prefix) bool {
			first, seen := pods[p]
			if seen {
				s.addProblem(m.Of, "the pods of %s are those of %s", p, first)
			} else {
				pods[p] = m.Of
			}
			return seen
		})
		s.members = append(s.members, m)
	}
}

// reservedPrefixes returns the prefixes in use by this cluster itself.
func (s *model) reservedPrefixes(from netip.Addr) []ReservedPrefix {
	out := slices.Clone(reserved)
	all := func(prefixes []netip.Prefix, by string) {
		for _, p := range prefixes {
			out = append(out, ReservedPrefix{p, by})
		}
	}
	all(s.pods, "pods of this cluster")
	all(s.services, "Services of this cluster")
	all(s.external, "addresses of this cluster in front of peers")
	all(hostPrefixes(from), "this gateway")
	for _, g := range s.tunnels {
		all(hostPrefixes(g.allAddresses()...), g.Of.String())
	}
	for _, m := range s.members {
		all(hostPrefixes(m.External...), m.Of.String())
		all(hostPrefixes(m.nodeAddresses()...), m.Of.String())
		all(m.PodCIDRs, "pods of "+m.Of.String())
	}
	return out
}

// takeNetworks accepts the networks of peers that overlap neither reserved prefixes nor each other locally.
func (s *model) takeNetworks(peers []Peer, taken []ReservedPrefix) {
	taken = slices.DeleteFunc(taken, func(t ReservedPrefix) bool { return !t.Prefix.IsValid() })
	slices.SortFunc(taken, func(a, b ReservedPrefix) int { return cmp.Or(a.Prefix.Compare(b.Prefix), cmp.Compare(a.By, b.By)) })
	for _, n := range networksOf(peers) {
		if err := s.conflictOf(n, taken); err != "" {
			s.reject(ReasonNetworkInTheWay, n.of, "%s is left out: %s", n.Local, err)
			continue
		}
		s.networks = append(s.networks, n)
	}
	s.byLocal = slices.SortedFunc(slices.Values(s.networks), func(a, b peerNetwork) int { return a.Local.Addr().Compare(b.Local.Addr()) })
}

// networkAt returns the network of a peer with a local address.
func (s *model) networkAt(a netip.Addr) (peerNetwork, bool) {
	i, found := slices.BinarySearchFunc(s.byLocal, a, func(n peerNetwork, a netip.Addr) int { return n.Local.Addr().Compare(a) })
	if !found {
		i--
	}
	if i < 0 || !s.byLocal[i].Local.Contains(a) {
		return peerNetwork{}, false
	}
	return s.byLocal[i], true
}

// reserve keeps the prefixes held for peers that overlap neither an accepted network nor a reserved prefix.
func (s *model) reserve(held []netip.Prefix, taken []ReservedPrefix) {
	s.held = slices.DeleteFunc(prefixSet(held), func(p netip.Prefix) bool {
		return slices.ContainsFunc(s.networks, func(n peerNetwork) bool { return n.Local.Overlaps(p) }) ||
			slices.ContainsFunc(taken, func(t ReservedPrefix) bool { return t.Prefix.Overlaps(p) })
	})
}

func peersByRank(in []Peer) []Peer {
	return byRank(in, func(p Peer) Object { return p.Of }, func(p Peer) time.Time { return p.Since })
}

// networksOf returns the networks of peers in the order of precedence.
func networksOf(peers []Peer) []peerNetwork {
	var out []peerNetwork
	for _, p := range peersByRank(peers) {
		var of []peerNetwork
		for _, pair := range p.Pods {
			of = append(of, peerNetwork{pair, p.Of, p.Key, false})
		}
		for _, pair := range p.External {
			of = append(of, peerNetwork{pair, p.Of, p.Key, true})
		}
		slices.SortFunc(of, func(a, b peerNetwork) int { // the same order before and after a restart
			return cmp.Or(a.Local.Compare(b.Local), a.Remote.Compare(b.Remote), compareBool(a.external, b.external))
		})
		out = append(out, of...)
	}
	return out
}

// conflictOf returns the reason against a network, or "".
func (s *model) conflictOf(n peerNetwork, taken []ReservedPrefix) string {
	if !usablePrefix(n.Local) || !usablePrefix(n.Remote) {
		return "it is not a valid network"
	}
	if _, err := prefix.New([]netip.Prefix{n.Remote}, []netip.Prefix{n.Local}); err != nil {
		return err.Error()
	}
	for _, t := range taken {
		if t.Prefix.Overlaps(n.Local) {
			return fmt.Sprintf("it covers %s, %s", prefixText(t.Prefix), t.By)
		}
	}
	for _, t := range reserved {
		if t.Prefix.Overlaps(n.Remote) {
			return fmt.Sprintf("network %s of the peer covers %s, %s", n.Remote, t.Prefix, t.By)
		}
	}
	for _, other := range s.networks {
		if other.Local.Overlaps(n.Local) {
			return fmt.Sprintf("it overlaps %s of %s", other.Local, other.of)
		}
		if other.peer == n.peer && other.Remote.Overlaps(n.Remote) {
			return fmt.Sprintf("network %s of the peer overlaps with %s of %s", n.Remote, other.Remote, other.of)
		}
	}
	return ""
}

// takeAliases accepts the translated IPs with a reachable address.
func (s *model) takeAliases(in []TranslatedIP) {
	gateways, nodes := s.unknownSources(), map[netip.Addr]Object{}
	for _, m := range slices.Backward(s.members) { // backwards, so that the first node wins
		for _, a := range m.External {
			nodes[a] = m.Of
		}
	}
	fit := slices.DeleteFunc(slices.Clone(in), func(a TranslatedIP) bool {
		err := s.rejectionReason(a, gateways, nodes)
		if err != "" {
			s.reject(ReasonUnusableAddress, a.Of, "%s", err)
		}
		return err != ""
	})
	var others []Problem
	s.aliases, others = Aliases(fit)
	s.problems = append(s.problems, others...)
	s.limitPrevious(gateways, nodes)
}

// limitPrevious drops previous aliases that mean something else today, or are of several IPs; the first wins.
func (s *model) limitPrevious(gateways []netip.Addr, nodes map[netip.Addr]Object) {
	used := map[netip.Addr]bool{}
	for _, a := range s.aliases {
		used[a.Alias], used[a.Address] = true, true
	}
	for i := range s.aliases {
		a := &s.aliases[i]
		a.Previous = slices.DeleteFunc(slices.Clone(a.Previous), func(p netip.Addr) bool {
			was := TranslatedIP{Alias: p, Address: a.Address}
			if used[p] || containsAddr(s.external, p) || was.invalidReason() != "" || s.rejectionReason(was, gateways, nodes) != "" {
				return true
			}
			used[p] = true
			return false
		})
	}
}

// Aliases resolves conflicts: the oldest object wins (precedence), one translated IP per address and one address per translated IP. Objects with the
// same pair are one. The peers of all objects for an address may use its alias. Pairs invalid in any cluster are left out.
func Aliases(in []TranslatedIP) (out []TranslatedIP, others []Problem) {
	byAlias, byAddress := map[netip.Addr]int{}, map[netip.Addr]int{}
	refuse := func(reason string, of Object, format string, args ...any) {
		others = append(others, Problem{Of: of, Reason: reason, Message: fmt.Sprintf(format, args...)})
	}
	for _, a := range byRank(in, func(a TranslatedIP) Object { return a.Of }, func(a TranslatedIP) time.Time { return a.Since }) {
		i, known := byAddress[a.Address]
		j, used := byAlias[a.Alias]
		odd := a.invalidReason()
		if known && odd == "" {
			out[i].allowPeers(a.Peers)
		}
		switch {
		case odd != "":
			refuse(ReasonUnusableAddress, a.Of, "%s", odd)
		case known && used && i == j:
			out[i].Masquerade = out[i].Masquerade || a.Masquerade
		case known:
			refuse(ReasonAnotherIP, a.Of, "%s has the alias %s of %s already", a.Address, out[i].Alias, out[i].Of)
		case used:
			refuse(ReasonAnotherIP, a.Of, "%s is an alias of %s, says %s", a.Alias, out[j].Address, out[j].Of)
		default:
			byAddress[a.Address], byAlias[a.Alias] = len(out), len(out)
			out = append(out, a)
		}
	}
	slices.SortFunc(out, func(a, b TranslatedIP) int { return a.Alias.Compare(b.Alias) })
	return out, others
}

func (a *TranslatedIP) allowPeers(more []string) {
	if a.Peers != nil {
		a.Peers = slices.Concat(a.Peers, more)
	}
	if more == nil {
		a.Peers = nil
	}
}

// invalidReason returns why the pair is invalid in any cluster, or "".
func (a TranslatedIP) invalidReason() string {
	switch {
	case !isUsable(a.Alias) || !isUsable(a.Address):
		return "the pair of addresses is invalid"
	case a.Alias == a.Address:
		return fmt.Sprintf("%s is an alias of itself", a.Alias)
	case datapath.FamilyOf(a.Alias) != datapath.FamilyOf(a.Address):
		return fmt.Sprintf("%s and %s are not of the same family", a.Alias, a.Address)
	}
	for _, t := range reserved {
		if t.Prefix.Contains(a.Address) || t.Prefix.Contains(a.Alias) {
			return fmt.Sprintf("%s and %s cannot both be reached: %s is for %s", a.Alias, a.Address, t.Prefix, t.By)
		}
	}
	return ""
}

// rejectionReason returns why the pair is unusable in this cluster, or "". gateways and nodes have the addresses of gateways and nodes towards
// peers.
func (s *model) rejectionReason(a TranslatedIP, gateways []netip.Addr, nodes map[netip.Addr]Object) string {
	switch {
	case containsAddr(s.pods, a.Alias), containsAddr(s.services, a.Alias):
		return fmt.Sprintf("%s is an address of this cluster's pods or Services and cannot be an alias", a.Alias)
	case slices.Contains(gateways, a.Alias):
		return fmt.Sprintf("%s is the address of gateways and cannot be an alias", a.Alias)
	case containsAddr(s.external, a.Address):
		return fmt.Sprintf("%s is in front of peers already", a.Address)
	}
	if n, is := s.networkAt(a.Alias); is {
		return fmt.Sprintf("%s is in %s of %s and cannot be an alias", a.Alias, n.Local, n.of)
	}
	if m, is := nodes[a.Alias]; is {
		return fmt.Sprintf("%s is the address of %s and cannot be an alias", a.Alias, m)
	}
	return ""
}

// unknownSource returns the address of the gateways, used for SNAT of sources without an address towards peers: the first of the external
// CIDR.
func (s *model) unknownSource(f datapath.Family) netip.Addr {
	return gatewayNetwork(s.external, f).Addr()
}

func (s *model) unknownSources() []netip.Addr {
	return addressSet([]netip.Addr{s.unknownSource(datapath.IPv4), s.unknownSource(datapath.IPv6)})
}

// nodeNamed returns the node with a name, or the zero value.
func (s *model) nodeNamed(name string) ClusterNode {
	i := slices.IndexFunc(s.members, func(m ClusterNode) bool { return m.Of.Name == name })
	if i < 0 {
		return ClusterNode{}
	}
	return s.members[i]
}

// tunnelOf returns the tunnel to a peer, or the zero value.
func (s *model) tunnelOf(of PeerKey) Tunnel {
	i := slices.IndexFunc(s.tunnels, func(g Tunnel) bool { return g.Peer == of })
	if i < 0 {
		return Tunnel{}
	}
	return s.tunnels[i]
}

// localPrefixes returns the local CIDRs of networks, of one family.
func localPrefixes(of []peerNetwork, f datapath.Family) []netip.Prefix {
	var out []netip.Prefix
	for _, n := range of {
		if familyOf(n.Local) == f {
			out = append(out, n.Local)
		}
	}
	return out
}

// minimumMTU6 is the smallest MTU of IPv6 in bytes: below it the kernel disables IPv6 on the device.
const minimumMTU6 = 1280

// fitsMTU reports whether the MTU of a tunnel allows the family of a network.
func (s *model) fitsMTU(n peerNetwork, tunnel Object, mtu int) bool {
	if familyOf(n.Local) == datapath.IPv4 || mtu >= minimumMTU6 {
		return true
	}
	s.reject(ReasonUnusableMTU, tunnel, "%s is unreachable: IPv6 needs an MTU of %d bytes, and the tunnel has %d", n.Local, minimumMTU6, mtu)
	return false
}

// fabricMTU returns the MTU of the fabric in bytes, large enough for every tunnel.
func (s *model) fabricMTU(own int) int {
	mtu := max(names.DefaultMTU, own)
	for _, g := range s.tunnels {
		mtu = max(mtu, g.MTU)
	}
	return mtu
}

// nodeAddresses returns the node's own addresses.
func (m ClusterNode) nodeAddresses() []netip.Addr {
	return addressSet(append(slices.Clone(m.Addresses), m.Local, m.Remote))
}

// identityAddr returns the address from which the MAC on the fabric is derived: IPv4 if available.
func (m ClusterNode) identityAddr() netip.Addr {
	if len(m.External) == 0 {
		return netip.Addr{}
	}
	return m.External[0]
}

// externalOf returns the node's external address: its source towards peers.
func (m ClusterNode) externalOf(f datapath.Family) netip.Addr {
	for _, a := range m.External {
		if datapath.FamilyOf(a) == f {
			return a
		}
	}
	return netip.Addr{}
}
