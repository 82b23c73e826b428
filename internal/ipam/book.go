// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package ipam

import (
	"cmp"
	"maps"
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
	kind     string // value of its label names.NetworkType, empty for a peer's
	want     tree.Want
	granted  netip.Prefix // the zero value until there is one
	reserved int          // how many of its first addresses are never granted
	going    bool
}

// networkOf reads a Network. A prefix that is none, which the API server does not take, is the zero value.
func networkOf(n *ipamv1alpha1.Network) network {
	return network{
		key:  client.ObjectKeyFromObject(n),
		kind: n.Labels[names.NetworkType],
		want: tree.Want{
			Prefix: prefix(string(n.Spec.CIDR)),
			Fixed:  n.Labels[names.NetworkNotRemapped] == "true",
			Shared: n.Labels[names.NetworkShared] == "true",
		},
		granted:  prefix(string(n.Status.CIDR)),
		reserved: int(n.Spec.PreAllocated),
		going:    !n.DeletionTimestamp.IsZero(),
	}
}

func prefix(s string) netip.Prefix {
	p, err := netip.ParsePrefix(s)
	if err != nil {
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

// address is what an IP was granted.
type address struct {
	key    client.ObjectKey
	addr   netip.Addr
	within netip.Prefix
}

func addressOf(ip *ipamv1alpha1.IP) (address, bool) {
	addr, err := netip.ParseAddr(string(ip.Status.IP))
	return address{client.ObjectKeyFromObject(ip), addr, prefix(string(ip.Status.CIDR))}, err == nil
}

// book is who has what: what statuses say, and what this process granted and has not seen in a status yet.
type book struct {
	mu        sync.Mutex
	networks  map[types.UID]network
	addresses map[types.UID]address
	holders   map[netip.Addr]int             // how many IPs have an address: one
	without   map[types.UID]client.ObjectKey // IPs that have none
	last      map[netip.Prefix]netip.Addr    // the last address granted of a Network
}

func newBook() *book {
	b := &book{last: map[netip.Prefix]netip.Addr{}}
	b.replace(nil, nil)
	return b
}

// replace makes the book say what was read of the API server.
func (b *book) replace(networks []ipamv1alpha1.Network, ips []ipamv1alpha1.IP) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.networks, b.addresses, b.holders = map[types.UID]network{}, map[types.UID]address{}, map[netip.Addr]int{}
	b.without = map[types.UID]client.ObjectKey{}
	for i := range networks {
		b.networks[networks[i].UID] = networkOf(&networks[i])
	}
	for i := range ips {
		b.enter(&ips[i])
	}
}

// seeNetwork enters what a cache shows, which may be older than what was granted.
func (b *book) seeNetwork(n *ipamv1alpha1.Network) {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := networkOf(n)
	if !now.granted.IsValid() {
		now.granted = b.networks[n.UID].granted
	}
	b.networks[n.UID] = now
}

// seeIP is seeNetwork for an IP.
func (b *book) seeIP(ip *ipamv1alpha1.IP) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.enter(ip)
}

func (b *book) enter(ip *ipamv1alpha1.IP) {
	if a, ok := addressOf(ip); ok {
		b.hold(ip.UID, a)
	} else if _, granted := b.addresses[ip.UID]; !granted {
		b.without[ip.UID] = client.ObjectKeyFromObject(ip)
	}
}

// drop takes out what is gone.
func (b *book) drop(uid types.UID) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.networks, uid)
	delete(b.without, uid)
	b.release(uid)
}

func (b *book) hold(uid types.UID, a address) {
	b.release(uid)
	delete(b.without, uid)
	b.addresses[uid] = a
	b.holders[a.addr]++
}

func (b *book) release(uid types.UID) {
	a, ok := b.addresses[uid]
	if !ok {
		return
	}
	delete(b.addresses, uid)
	if b.holders[a.addr]--; b.holders[a.addr] == 0 {
		delete(b.holders, a.addr)
	}
}

// grantNetwork enters what was written.
func (b *book) grantNetwork(uid types.UID, p netip.Prefix) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if n, ok := b.networks[uid]; ok {
		n.granted = p
		b.networks[uid] = n
	}
}

// grantIP enters what was written.
func (b *book) grantIP(uid types.UID, a address) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.last[a.within] = a.addr
	b.hold(uid, a)
}

// network returns what is known of a Network.
func (b *book) network(uid types.UID) (network, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	n, ok := b.networks[uid]
	return n, ok
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

// address returns what an IP was granted.
func (b *book) address(uid types.UID) (address, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	a, ok := b.addresses[uid]
	return a, ok
}

// inUse counts the addresses granted of a prefix.
func (b *book) inUse(p netip.Prefix) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	n := 0
	for _, a := range b.addresses {
		if a.within == p {
			n++
		}
	}
	return n
}

// claims are what a Network that asks must not get: what others have, what is kept for those of a lower rank, and addresses
// whose Network is gone.
func (b *book) claims(asker types.UID) []tree.Claim {
	b.mu.Lock()
	defer b.mu.Unlock()
	rank := b.networks[asker].rank()
	granted := map[netip.Prefix]bool{}
	var out []tree.Claim
	for uid, n := range b.networks {
		granted[n.granted] = true
		claimed := n.granted
		if !claimed.IsValid() && n.rank() < rank {
			claimed = n.want.Prefix
		}
		if uid != asker && claimed.IsValid() {
			out = append(out, tree.Claim{Prefix: claimed, Shared: n.want.Fixed && n.want.Shared, Of: "Network " + n.key.String()})
		}
	}
	for _, a := range b.addresses {
		if !granted[a.within] {
			out = append(out, tree.Claim{Prefix: netip.PrefixFrom(a.addr, a.addr.BitLen()), Of: "IP " + a.key.String()})
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

// networksWithout are the Networks that have nothing yet.
func (b *book) networksWithout() []client.ObjectKey {
	return keysOf(b.networksThat(func(n network) bool { return !n.granted.IsValid() && !n.going }))
}

// networksGoing are the Networks that are being deleted.
func (b *book) networksGoing() []client.ObjectKey {
	return keysOf(b.networksThat(func(n network) bool { return n.going }))
}

func keysOf(networks []network) []client.ObjectKey {
	out := make([]client.ObjectKey, len(networks))
	for i, n := range networks {
		out[i] = n.key
	}
	return out
}

// ipsWithout are the IPs that have nothing yet.
func (b *book) ipsWithout() []client.ObjectKey {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Collect(maps.Values(b.without))
}
