// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package ipam

import (
	"cmp"
	"maps"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync"

	"go4.org/netipx"
	"k8s.io/apimachinery/pkg/types"
	netutils "k8s.io/utils/net"
	"sigs.k8s.io/controller-runtime/pkg/client"

	ipamv1alpha1 "liqo.io/liqo/api/ipam/v1alpha1"
	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
	"liqo.io/liqo/internal/names"
	"liqo.io/liqo/internal/prefix"
)

// networkClaim is the known state of a Network.
type networkClaim struct {
	version  uint64 // resourceVersion
	key      client.ObjectKey
	kind     string // one of names.NetworkType*; empty for Networks of other kinds
	want     prefix.Want
	granted  netip.Prefix // allocated prefix; the zero value if none
	reserved int          // number of first addresses that are never allocated
	going    bool
}

// networkOf converts a Network. Networks of the whole cluster are in the namespace of the installation.
func networkOf(n *ipamv1alpha1.Network, installation string) networkClaim {
	out := networkClaim{
		version: versionOf(n),
		key:     client.ObjectKeyFromObject(n),
		want: prefix.Want{
			Prefix:    parsePrefix(string(n.Spec.CIDR)),
			Preferred: parsePrefix(n.Annotations[names.PreferredCIDR]),
			Fixed:     n.Labels[names.NetworkNotRemapped] == "true",
			Shared:    n.Labels[names.NetworkShared] == "true",
		},
		granted:  parseStored(string(n.Status.CIDR)),
		reserved: int(n.Spec.PreAllocated),
		going:    !n.DeletionTimestamp.IsZero(),
	}
	if n.Namespace == installation {
		out.kind = n.Labels[names.NetworkType]
	}
	return out
}

// versionOf returns the resourceVersion as a number, to detect stale events: API servers count upwards.
func versionOf(obj client.Object) uint64 {
	n, err := strconv.ParseUint(obj.GetResourceVersion(), 10, 64)
	if err != nil {
		return 0
	}
	return n
}

// parsePrefix parses a requested prefix, and returns the zero value if invalid. The API server accepts more: leading zeros, and IPv4-mapped IPv6
// prefixes, which would overlap no IPv4 prefix.
func parsePrefix(s string) netip.Prefix {
	p, err := netip.ParsePrefix(s)
	if err != nil || p.Addr().Is4In6() {
		return netip.Prefix{}
	}
	return p.Masked()
}

// parseStored parses an allocated prefix in any form accepted by the API server.
func parseStored(s string) netip.Prefix {
	_, n, err := netutils.ParseCIDRSloppy(s)
	if err != nil {
		return netip.Prefix{}
	}
	addr, _ := netip.AddrFromSlice(n.IP)
	bits, _ := n.Mask.Size()
	if addr.Is4In6() {
		addr, bits = addr.Unmap(), max(bits-96, 0)
	}
	return netip.PrefixFrom(addr, bits).Masked()
}

// storedAddr is parseStored for an address.
func storedAddr(s string) netip.Addr {
	addr, _ := netip.AddrFromSlice(netutils.ParseIPSloppy(s))
	return addr.Unmap()
}

// claimRank returns the rank of a Network: requested prefixes of lower ranks are reserved. So an installation gets its requested prefixes in any
// order of allocation, before Networks of peers.
func (n networkClaim) claimRank() int {
	switch n.kind {
	case names.NetworkTypePod, names.NetworkTypeService, names.NetworkTypeReserved:
		return 0
	case names.NetworkTypeExternal, names.NetworkTypeInternal:
		return 1
	}
	return 2
}

// aliasClaim is the known state of an IP or a node. The address of a node is from the external CIDR, like the addresses of many IPs.
type aliasClaim struct {
	version uint64 // resourceVersion
	key     client.ObjectKey
	network client.ObjectKey // the Network named by the IP; the zero value is the external CIDR
	addr    netip.Addr       // allocated address; the zero value if none
	within  netip.Prefix     // prefix of the address; unknown for a node
	// previous is the address that an IP without an address had before.
	previous netip.Addr
	node     bool
}

func aliasOf(ip *ipamv1alpha1.IP) aliasClaim {
	out := aliasClaim{version: versionOf(ip), key: client.ObjectKeyFromObject(ip)}
	if ref := ip.Spec.NetworkRef; ref != nil {
		out.network = client.ObjectKey{Namespace: ref.Namespace, Name: ref.Name}
	}
	if out.addr = storedAddr(string(ip.Status.IP)); out.addr.IsValid() {
		out.within = parseStored(string(ip.Status.CIDR))
	} else if len(ip.Status.PreviousIPs) > 0 {
		out.previous = storedAddr(string(ip.Status.PreviousIPs[0]))
	}
	return out
}

func nodeAliasOf(n *networkingv1beta1.InternalNode) aliasClaim {
	return aliasClaim{version: versionOf(n), key: client.ObjectKeyFromObject(n), addr: storedAddr(string(n.Spec.Interface.Node.IP)), node: true}
}

// asksIn reports whether an IP requests an address of a Network.
func (a aliasClaim) asksIn(n networkClaim) bool {
	if a.network == (client.ObjectKey{}) {
		return n.kind == names.NetworkTypeExternal
	}
	return n.key == a.network
}

// allocations holds all allocations, from the newest event, read or write of each object. Stale versions are ignored.
type allocations struct {
	installation string // a namespace

	mu       sync.Mutex
	networks map[types.UID]networkClaim
	aliases  map[types.UID]aliasClaim
	holders  map[netip.Addr]int          // number of IPs per address
	last     map[netip.Prefix]netip.Addr // last allocated address per prefix
	lastNode map[netip.Prefix]netip.Addr // last address allocated to a node, per prefix
	// previousAddresses are the addresses of deleted IPs and nodes: a successor of the name gets the same address, which peers may have stored.
	previousAddresses map[client.ObjectKey]netip.Addr
	// gone holds tombstones: objects that are deleted for good, even if a stale cache still contains them.
	gone map[types.UID]bool
	// heard holds the objects with an event since a full read began: the read may be older than the event.
	heard map[types.UID]bool
}

func newBook(installation string) *allocations {
	return &allocations{
		installation: installation,
		networks:     map[types.UID]networkClaim{}, aliases: map[types.UID]aliasClaim{},
		holders: map[netip.Addr]int{}, last: map[netip.Prefix]netip.Addr{}, lastNode: map[netip.Prefix]netip.Addr{},
		previousAddresses: map[client.ObjectKey]netip.Addr{}, gone: map[types.UID]bool{}, heard: map[types.UID]bool{},
	}
}

// startRecording is called before a full read of the API server, replaceAll after it.
func (b *allocations) startRecording() {
	b.mu.Lock()
	defer b.mu.Unlock()
	clear(b.heard)
}

// replaceAll stores the result of a full read. Objects missing from the read are deleted, unless an event arrived since startRecording.
func (b *allocations) replaceAll(networks []ipamv1alpha1.Network, ips []ipamv1alpha1.IP, nodes []networkingv1beta1.InternalNode) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for i := range networks {
		b.putObject(&networks[i])
	}
	for i := range ips {
		b.putObject(&ips[i])
	}
	for i := range nodes {
		b.putObject(&nodes[i])
	}
	maps.DeleteFunc(b.networks, func(uid types.UID, _ networkClaim) bool { return !b.heard[uid] })
	for uid := range b.aliases {
		if !b.heard[uid] {
			b.removeAlias(uid)
		}
	}
}

// recordObject stores an object from an informer event or from a write.
func (b *allocations) recordObject(obj client.Object) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.putObject(obj)
}

// manyGone limits the number of tombstones: far more than the events by which a cache may lag.
const manyGone = 1 << 16

// removeObject deletes an object and leaves a tombstone.
func (b *allocations) removeObject(uid types.UID) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.gone) >= manyGone {
		clear(b.gone)
	}
	b.gone[uid] = true
	delete(b.heard, uid)
	delete(b.last, b.networks[uid].granted)
	delete(b.lastNode, b.networks[uid].granted)
	delete(b.networks, uid)
	b.removeAlias(uid)
}

// removeAlias removes a deleted IP or node, whose successor may get its address.
func (b *allocations) removeAlias(uid types.UID) {
	if a := b.aliases[uid]; a.addr.IsValid() {
		if len(b.previousAddresses) >= manyGone {
			clear(b.previousAddresses)
		}
		b.previousAddresses[a.key] = a.addr
	}
	b.dropAlias(uid)
}

func (b *allocations) putObject(obj client.Object) {
	uid := obj.GetUID()
	if b.gone[uid] {
		return
	}
	b.heard[uid] = true
	switch obj := obj.(type) {
	case *ipamv1alpha1.Network:
		if n := networkOf(obj, b.installation); n.version >= b.networks[uid].version {
			b.networks[uid] = n
		}
	case *ipamv1alpha1.IP:
		b.putAlias(uid, aliasOf(obj))
	case *networkingv1beta1.InternalNode:
		b.putAlias(uid, nodeAliasOf(obj))
	}
}

func (b *allocations) putAlias(uid types.UID, a aliasClaim) {
	if a.version < b.aliases[uid].version {
		return
	}
	b.dropAlias(uid)
	b.aliases[uid] = a
	if a.addr.IsValid() {
		b.holders[a.addr]++
		delete(b.previousAddresses, a.key)
	}
}

func (b *allocations) dropAlias(uid types.UID) {
	if a := b.aliases[uid]; a.addr.IsValid() {
		if b.holders[a.addr]--; b.holders[a.addr] == 0 {
			delete(b.holders, a.addr)
		}
	}
	delete(b.aliases, uid)
}

// isRelevant reports whether a change affects the allocations of other objects. old is nil for a new object.
func (b *allocations) isRelevant(old, now client.Object) bool {
	n, ok := now.(*ipamv1alpha1.Network)
	if !ok {
		return false // an IP or node takes only one address of many
	}
	before, ok := old.(*ipamv1alpha1.Network)
	if !ok {
		return true
	}
	was, is := networkOf(before, b.installation), networkOf(n, b.installation)
	was.version = is.version
	return was != is
}

// networkOf returns the known state of a Network.
func (b *allocations) networkOf(uid types.UID) (networkClaim, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	n, ok := b.networks[uid]
	return n, ok
}

// aliasOf returns the known state of an IP or node.
func (b *allocations) aliasOf(uid types.UID) (aliasClaim, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	a, ok := b.aliases[uid]
	return a, ok
}

// networksThat returns the matching Networks, sorted by name.
func (b *allocations) networksThat(match func(networkClaim) bool) []networkClaim {
	b.mu.Lock()
	defer b.mu.Unlock()
	var out []networkClaim
	for _, n := range b.networks {
		if match(n) {
			out = append(out, n)
		}
	}
	slices.SortFunc(out, func(a, b networkClaim) int { return strings.Compare(a.key.String(), b.key.String()) })
	return out
}

// aliasesThat returns the keys of the matching IPs and nodes.
func (b *allocations) aliasesThat(match func(aliasClaim) bool) []client.ObjectKey {
	b.mu.Lock()
	defer b.mu.Unlock()
	var out []client.ObjectKey
	for _, a := range b.aliases {
		if match(a) {
			out = append(out, a.key)
		}
	}
	return out
}

// claimsOf returns the prefixes unavailable to a Network: allocations of others, reservations of lower ranks, and addresses of deleted
// Networks, unless the Network takes their place.
func (b *allocations) claimsOf(owner types.UID) []prefix.Claim {
	b.mu.Lock()
	defer b.mu.Unlock()
	me := b.networks[owner]
	var granted []networkClaim
	var out []prefix.Claim
	for uid, n := range b.networks {
		if uid == owner {
			continue
		}
		claimed := n.granted
		if claimed.IsValid() {
			granted = append(granted, n)
		} else if n.claimRank() < me.claimRank() {
			claimed = n.want.Prefix
		}
		if claimed.IsValid() {
			out = append(out, prefix.Claim{Prefix: claimed, Shared: n.want.Fixed && n.want.Shared, Of: "Network " + n.key.String()})
		}
	}
	for _, a := range b.aliases {
		housed := slices.ContainsFunc(granted, func(n networkClaim) bool { return a.livesIn(n, n.granted) })
		if a.addr.IsValid() && !housed && !(a.asksIn(me) && me.want.Prefix.Contains(a.addr)) {
			out = append(out, prefix.Claim{Prefix: netip.PrefixFrom(a.addr, a.addr.BitLen()), Apart: true, Of: a.String()})
		}
	}
	slices.SortFunc(out, func(a, b prefix.Claim) int {
		return cmp.Or(a.Prefix.Addr().Compare(b.Prefix.Addr()), cmp.Compare(a.Prefix.Bits(), b.Prefix.Bits()), strings.Compare(a.Of, b.Of))
	})
	return out
}

// livesIn reports whether the address belongs to a Network with that prefix.
func (a aliasClaim) livesIn(n networkClaim, p netip.Prefix) bool {
	if a.node {
		return n.kind == names.NetworkTypeExternal && p.Contains(a.addr)
	}
	return a.within == p
}

func (a aliasClaim) String() string {
	if a.node {
		return "InternalNode " + a.key.Name
	}
	return "IP " + a.key.String()
}

// freeAddress returns a free address of a Network for an IP, and false if exhausted. The first choice is the previous address of the IP or of its
// predecessor. The second choice is the address with the same host bits, so that the address stays the same for peers that remap the Network alike.
// Other IPs get these addresses last. The part reserved for nodes is excluded.
func (b *allocations) freeAddress(n networkClaim, of aliasClaim) (addr netip.Addr, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	kept := nodesPart(n)
	taken := func(a netip.Addr) bool { return b.holders[a] > 0 || kept.Contains(a) }
	if wanted := b.sameHost(n, of); wanted.IsValid() {
		if addr, ok := prefix.Address(n.granted, n.reserved, wanted.Prev(), taken); ok && addr == wanted {
			return addr, true
		}
	}
	awaited := map[netip.Addr]bool{}
	for _, a := range b.aliases {
		if !a.node && a.asksIn(n) && !n.granted.Contains(a.addr) {
			awaited[b.sameHost(n, a)] = true
		}
	}
	addr, ok = prefix.Address(n.granted, n.reserved, b.last[n.granted], func(a netip.Addr) bool { return taken(a) || awaited[a] })
	if !ok {
		addr, ok = prefix.Address(n.granted, n.reserved, b.last[n.granted], taken)
	}
	if ok {
		b.last[n.granted] = addr
	}
	return addr, ok
}

// sameHost returns the address of a Network with the same host bits as the present or former address of an IP or node, or of a predecessor; the zero
// value for none.
func (b *allocations) sameHost(n networkClaim, of aliasClaim) netip.Addr {
	had := of.addr
	if !had.IsValid() {
		had = of.previous
	}
	if former, known := b.previousAddresses[of.key]; known && !had.IsValid() {
		had = former
	}
	if !had.IsValid() || had.BitLen() != n.granted.Addr().BitLen() {
		return netip.Addr{}
	}
	return prefix.Move(had, n.granted) // itself, if it is of the Network
}

// lostAddresses returns a function that reports whether the Network of an IP's address is gone or being deleted, and another Network takes its place.
func (b *allocations) lostAddresses() func(aliasClaim) bool {
	granted := b.networksThat(func(n networkClaim) bool { return n.granted.IsValid() && !n.going })
	return func(a aliasClaim) bool {
		return a.addr.IsValid() && !a.node && slices.ContainsFunc(granted, a.asksIn) &&
			!slices.ContainsFunc(granted, func(n networkClaim) bool { return n.granted.Contains(a.addr) })
	}
}

// freeForNode is freeAddress for a node, whose address is from the end of the external CIDR.
func (b *allocations) freeForNode(n networkClaim, of aliasClaim) (addr netip.Addr, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	taken := func(a netip.Addr) bool { return b.holders[a] > 0 }
	if wanted := b.sameHost(n, of); nodesPart(n).Contains(wanted) && !taken(wanted) {
		return wanted, true
	}
	if addr, ok = prefix.AddressFromTheEnd(n.granted, n.reserved, b.lastNode[n.granted], taken); ok {
		b.lastNode[n.granted] = addr
	}
	return addr, ok
}

// nodesShare is the number of prefix bits by which the part reserved for nodes is smaller: 4 bits, a sixteenth.
const nodesShare = 4

// nodesPart returns the end of the external CIDR reserved for nodes; the zero value for other Networks.
func nodesPart(n networkClaim) netip.Prefix {
	if bits := n.granted.Bits() + nodesShare; n.kind == names.NetworkTypeExternal && bits <= n.granted.Addr().BitLen() {
		return netip.PrefixFrom(netipx.PrefixLastIP(n.granted), bits).Masked()
	}
	return netip.Prefix{}
}
