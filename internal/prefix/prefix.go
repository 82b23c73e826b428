// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

// Package prefix allocates prefixes and addresses from pools, and translates addresses of a peer between the remote CIDRs, used in the peer,
// and the local CIDRs, used in this cluster: prefix by prefix, keeping the host bits.
package prefix

import (
	"fmt"
	"net/netip"
	"slices"
)

// Pair is a remote CIDR of the peer with its local CIDR of the same length.
type Pair struct{ Remote, Local netip.Prefix }

// Map holds the pairs of one peer. Remote CIDRs do not overlap, and local CIDRs do not overlap.
type Map struct {
	pairs []Pair
	// awaited are the remote CIDRs without a local CIDR yet.
	awaited []netip.Prefix
}

// New returns the map of remote to local prefixes, paired by index.
func New(remote, local []netip.Prefix) (Map, error) {
	if len(remote) != len(local) {
		return Map{}, fmt.Errorf("%d remote prefixes, but %d local ones", len(remote), len(local))
	}
	pairs := make([]Pair, len(remote))
	for i := range remote {
		pairs[i] = Pair{Remote: remote[i].Masked(), Local: local[i].Masked()}
	}
	return mapOf(pairs)
}

func mapOf(pairs []Pair) (Map, error) {
	var m Map
	for _, p := range pairs {
		if p.Remote.Bits() != p.Local.Bits() || p.Remote.Addr().BitLen() != p.Local.Addr().BitLen() {
			return Map{}, fmt.Errorf("remote prefix %s and local prefix %s differ in length", p.Remote, p.Local)
		}
		for _, other := range m.pairs {
			if p.Remote.Overlaps(other.Remote) {
				return Map{}, fmt.Errorf("remote prefixes %s and %s overlap", other.Remote, p.Remote)
			}
			if p.Local.Overlaps(other.Local) {
				return Map{}, fmt.Errorf("local prefixes %s and %s overlap", other.Local, p.Local)
			}
		}
		m.pairs = append(m.pairs, p)
	}
	return m, nil
}

// ToLocal translates a remote address into a local one; false if no prefix contains it.
func (m Map) ToLocal(remote netip.Addr) (netip.Addr, bool) {
	for _, p := range m.pairs {
		if p.Remote.Contains(remote) {
			return Move(remote, p.Local), true
		}
	}
	return netip.Addr{}, false
}

// IsAwaited reports whether a remote address is in a CIDR without a local CIDR yet.
func (m Map) IsAwaited(remote netip.Addr) bool {
	return slices.ContainsFunc(m.awaited, func(p netip.Prefix) bool { return p.Contains(remote) })
}

// KeepPairs returns the map with the pairs of a previous one for CIDRs without a local CIDR yet.
func (m Map) KeepPairs(previous Map) Map {
	for _, pair := range previous.pairs {
		i := slices.Index(m.awaited, pair.Remote)
		if i < 0 {
			continue
		}
		if all, err := mapOf(append(m.Pairs(), pair)); err == nil { // no local CIDR overlaps
			m = Map{pairs: all.pairs, awaited: slices.Delete(slices.Clone(m.awaited), i, i+1)}
		}
	}
	return m
}

// ToRemote translates a local address into a remote one; false if no prefix contains it.
func (m Map) ToRemote(local netip.Addr) (netip.Addr, bool) {
	for _, p := range m.pairs {
		if p.Local.Contains(local) {
			return Move(local, p.Remote), true
		}
	}
	return netip.Addr{}, false
}

// ContainsLocal reports whether a local prefix contains an address.
func (m Map) ContainsLocal(local netip.Addr) bool {
	_, is := m.ToRemote(local)
	return is
}

// Move replaces the network bits of addr by those of prefix.
func Move(addr netip.Addr, prefix netip.Prefix) netip.Addr {
	host, network := addr.AsSlice(), prefix.Addr().AsSlice()
	for i := range host {
		bits := min(max(prefix.Bits()-8*i, 0), 8) // network bits of this byte
		mask := byte(0xff) << (8 - bits)
		host[i] = network[i]&mask | host[i]&^mask
	}
	out, _ := netip.AddrFromSlice(host) // host has the length of an address
	return out
}

// Pairs returns the pairs of the map.
func (m Map) Pairs() []Pair { return slices.Clone(m.pairs) }
