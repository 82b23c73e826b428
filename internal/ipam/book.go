// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package ipam

import (
	"cmp"
	"net/netip"
	"slices"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	ipamv1alpha1 "liqo.io/liqo/api/ipam/v1alpha1"
	"liqo.io/liqo/internal/ipam/tree"
	"liqo.io/liqo/internal/names"
)

// network is what is known of a Network.
type network struct {
	key      client.ObjectKey
	kind     string // what it is for this cluster, one of names.NetworkType*; empty for all others
	want     tree.Want
	granted  netip.Prefix // the zero value until there is one
	reserved int          // how many of its first addresses are never granted
	going    bool
}

// networkOf reads a Network. What is for the whole cluster is in the namespace of the installation.
func networkOf(n *ipamv1alpha1.Network, installation string) network {
	out := network{
		key: client.ObjectKeyFromObject(n),
		want: tree.Want{
			Prefix: prefix(string(n.Spec.CIDR)),
			Fixed:  n.Labels[names.NetworkNotRemapped] == "true",
			Shared: n.Labels[names.NetworkShared] == "true",
		},
		granted:  prefix(string(n.Status.CIDR)),
		reserved: int(n.Spec.PreAllocated),
		going:    !n.DeletionTimestamp.IsZero(),
	}
	if n.Namespace == installation {
		out.kind = n.Labels[names.NetworkType]
	}
	return out
}

// prefix reads a prefix, the zero value if there is none. The API server takes forms that are none: leading zeros, and IPv4 written
// as IPv6, which would overlap nothing.
func prefix(s string) netip.Prefix {
	p, err := netip.ParsePrefix(s)
	if err != nil || p.Addr().Is4In6() {
		return netip.Prefix{}
	}
	return p.Masked()
}

// rank orders Networks: what one of a lower rank asks for is kept for it. So an installation gets what it wants although its
// Networks are granted in any order, beside those of peers.
func (n network) rank() int {
	switch n.kind {
	case names.NetworkTypePod, names.NetworkTypeService, names.NetworkTypeReserved:
		return 0
	case names.NetworkTypeExternal, names.NetworkTypeInternal:
		return 1
	}
	return 2
}

// alias is what is known of an IP.
type alias struct {
	key     client.ObjectKey
	network client.ObjectKey // what it asks an address of; the zero value is the external CIDR
	addr    netip.Addr       // the zero value until there is one
	within  netip.Prefix
}

func aliasOf(ip *ipamv1alpha1.IP) alias {
	out := alias{key: client.ObjectKeyFromObject(ip)}
	if ref := ip.Spec.NetworkRef; ref != nil {
		out.network = client.ObjectKey{Namespace: ref.Namespace, Name: ref.Name}
	}
	if addr, err := netip.ParseAddr(string(ip.Status.IP)); err == nil {
		out.addr, out.within = addr, prefix(string(ip.Status.CIDR))
	}
	return out
}

// asks tells whether an IP asks for an address of a Network.
func (a alias) asks(n network) bool {
	if a.network == (client.ObjectKey{}) {
		return n.kind == names.NetworkTypeExternal
	}
	return n.key == a.network
}

// book is who has what: what statuses say, and what this process granted and has not heard of yet. Only what is heard of an object,
// or read of the API server, enters it.
type book struct {
	installation string // a namespace

	mu       sync.Mutex
	networks map[types.UID]network
	aliases  map[types.UID]alias
	holders  map[netip.Addr]int          // how many IPs have an address
	last     map[netip.Prefix]netip.Addr // the last address granted of a prefix
	// heard are the objects that something was heard of since a reading of the API server began, which may not know of it.
	// It is nil while nobody reads.
	heard map[types.UID]bool
}

func newBook(installation string) *book {
	return &book{
		installation: installation,
		networks:     map[types.UID]network{}, aliases: map[types.UID]alias{},
		holders: map[netip.Addr]int{}, last: map[netip.Prefix]netip.Addr{},
	}
}

// listen begins a reading of the API server, which replace ends.
func (b *book) listen() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.heard = map[types.UID]bool{}
}

// replace makes the book say what was read since listen, unless it has heard of an object since.
func (b *book) replace(networks []ipamv1alpha1.Network, ips []ipamv1alpha1.IP) {
	b.mu.Lock()
	defer b.mu.Unlock()
	read := make(map[types.UID]bool, len(networks)+len(ips))
	for i := range networks {
		uid := networks[i].UID
		if read[uid] = true; !b.heard[uid] {
			b.putNetwork(uid, networkOf(&networks[i], b.installation))
		}
	}
	for i := range ips {
		uid := ips[i].UID
		if read[uid] = true; !b.heard[uid] {
			b.putAlias(uid, aliasOf(&ips[i]))
		}
	}
	for uid := range b.networks {
		if !read[uid] && !b.heard[uid] {
			delete(b.networks, uid)
		}
	}
	for uid := range b.aliases {
		if !read[uid] && !b.heard[uid] {
			b.dropAlias(uid)
		}
	}
	b.heard = nil
}

// hear enters what a cache shows of an object, which may be older than what was granted.
func (b *book) hear(obj client.Object) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.mark(obj.GetUID())
	switch obj := obj.(type) {
	case *ipamv1alpha1.Network:
		b.putNetwork(obj.UID, networkOf(obj, b.installation))
	case *ipamv1alpha1.IP:
		b.putAlias(obj.UID, aliasOf(obj))
	}
}

// matters tells whether others may get what they could not get before, or may not get it any more, because of a change. old is nil
// for a new object.
func (b *book) matters(old, now client.Object) bool {
	n, ok := now.(*ipamv1alpha1.Network)
	if !ok {
		return false // an IP takes one address of many
	}
	before, ok := old.(*ipamv1alpha1.Network)
	return !ok || networkOf(before, b.installation) != networkOf(n, b.installation)
}

// forget takes out what is gone.
func (b *book) forget(uid types.UID) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.mark(uid)
	delete(b.networks, uid)
	b.dropAlias(uid)
}

func (b *book) mark(uid types.UID) {
	if b.heard != nil {
		b.heard[uid] = true
	}
}

// putNetwork enters a Network. What was granted, and that it is going, is never taken back.
func (b *book) putNetwork(uid types.UID, n network) {
	if before, ok := b.networks[uid]; ok {
		n.going = n.going || before.going
		if !n.granted.IsValid() {
			n.granted = before.granted
		}
	}
	b.networks[uid] = n
}

// putAlias enters an IP. What was granted is never taken back.
func (b *book) putAlias(uid types.UID, a alias) {
	before, ok := b.aliases[uid]
	if ok && !a.addr.IsValid() {
		a.addr, a.within = before.addr, before.within
	}
	b.dropAlias(uid)
	b.aliases[uid] = a
	if a.addr.IsValid() {
		b.holders[a.addr]++
	}
}

func (b *book) dropAlias(uid types.UID) {
	if a := b.aliases[uid]; a.addr.IsValid() {
		if b.holders[a.addr]--; b.holders[a.addr] == 0 {
			delete(b.holders, a.addr)
		}
	}
	delete(b.aliases, uid)
}

// written enters what a status says now, of an object that is known.
func (b *book) written(obj client.Object) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch obj := obj.(type) {
	case *ipamv1alpha1.Network:
		if n, ok := b.networks[obj.UID]; ok {
			n.granted = prefix(string(obj.Status.CIDR))
			b.putNetwork(obj.UID, n)
		}
	case *ipamv1alpha1.IP:
		if _, ok := b.aliases[obj.UID]; ok {
			a := aliasOf(obj)
			b.putAlias(obj.UID, a)
			b.last[a.within] = a.addr
		}
	}
}

// network returns what is known of a Network.
func (b *book) network(uid types.UID) (network, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	n, ok := b.networks[uid]
	return n, ok
}

// alias returns what is known of an IP.
func (b *book) alias(uid types.UID) (alias, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	a, ok := b.aliases[uid]
	return a, ok
}

// networksThat returns the Networks that match, in order of their names.
func (b *book) networksThat(match func(network) bool) []network {
	b.mu.Lock()
	defer b.mu.Unlock()
	var out []network
	for _, n := range b.networks {
		if match(n) {
			out = append(out, n)
		}
	}
	slices.SortFunc(out, func(a, b network) int { return strings.Compare(a.key.String(), b.key.String()) })
	return out
}

// aliasesThat returns the keys of the IPs that match.
func (b *book) aliasesThat(match func(alias) bool) []client.ObjectKey {
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

// claims are what a Network that asks must not get: what others have, what is kept for those of a lower rank, and addresses
// whose Network is gone, unless it asks for the very prefix that they are of.
func (b *book) claims(asker types.UID) []tree.Claim {
	b.mu.Lock()
	defer b.mu.Unlock()
	me := b.networks[asker]
	granted := map[netip.Prefix]bool{me.want.Prefix: true}
	var out []tree.Claim
	for uid, n := range b.networks {
		if uid == asker {
			continue
		}
		claimed := n.granted
		if claimed.IsValid() {
			granted[claimed] = true
		} else if n.rank() < me.rank() {
			claimed = n.want.Prefix
		}
		if claimed.IsValid() {
			out = append(out, tree.Claim{Prefix: claimed, Shared: n.want.Fixed && n.want.Shared, Of: "Network " + n.key.String()})
		}
	}
	for _, a := range b.aliases {
		if a.addr.IsValid() && !granted[a.within] {
			out = append(out, tree.Claim{Prefix: netip.PrefixFrom(a.addr, a.addr.BitLen()), Apart: true, Of: "IP " + a.key.String()})
		}
	}
	slices.SortFunc(out, func(a, b tree.Claim) int {
		return cmp.Or(a.Prefix.Addr().Compare(b.Prefix.Addr()), cmp.Compare(a.Prefix.Bits(), b.Prefix.Bits()), strings.Compare(a.Of, b.Of))
	})
	return out
}

// free returns an address of a granted Network that nobody has; false if there is none.
func (b *book) free(n network) (netip.Addr, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return tree.Address(n.granted, n.reserved, b.last[n.granted], func(a netip.Addr) bool { return b.holders[a] > 0 })
}
