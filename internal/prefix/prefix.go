// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

// Package prefix allocates prefixes and addresses from pools, and translates addresses of a peer between the remote CIDRs, used in the peer,
// and the local CIDRs, used in this cluster: prefix by prefix, keeping the host bits.
package prefix

import (
	"fmt"
	"net/netip"
)

// Pair is a remote CIDR of the peer with its local CIDR of the same length.
type Pair struct{ There, Here netip.Prefix }

// Map holds the pairs of one peer. Neither remote nor local CIDRs overlap each other.
type Map struct{ pairs []Pair }

// New returns the map of remote to local prefixes, paired by index.
func New(there, here []netip.Prefix) (Map, error) {
	if len(there) != len(here) {
		return Map{}, fmt.Errorf("%d prefixes there and %d here", len(there), len(here))
	}
	pairs := make([]Pair, len(there))
	for i := range there {
		pairs[i] = Pair{There: there[i].Masked(), Here: here[i].Masked()}
	}
	return mapOf(pairs)
}

func mapOf(pairs []Pair) (Map, error) {
	var m Map
	for _, p := range pairs {
		if p.There.Bits() != p.Here.Bits() || p.There.Addr().BitLen() != p.Here.Addr().BitLen() {
			return Map{}, fmt.Errorf("%s there and %s here are not of the same length", p.There, p.Here)
		}
		for _, other := range m.pairs {
			if p.There.Overlaps(other.There) {
				return Map{}, fmt.Errorf("%s and %s there overlap", other.There, p.There)
			}
			if p.Here.Overlaps(other.Here) {
				return Map{}, fmt.Errorf("%s and %s here overlap", other.Here, p.Here)
			}
		}
		m.pairs = append(m.pairs, p)
	}
	return m, nil
}

// Here translates a remote address into a local one; false if no prefix contains it.
func (m Map) Here(there netip.Addr) (netip.Addr, bool) {
	for _, p := range m.pairs {
		if p.There.Contains(there) {
			return move(there, p.Here), true
		}
	}
	return netip.Addr{}, false
}

// There translates a local address into a remote one; false if no prefix contains it.
func (m Map) There(here netip.Addr) (netip.Addr, bool) {
	for _, p := range m.pairs {
		if p.Here.Contains(here) {
			return move(here, p.There), true
		}
	}
	return netip.Addr{}, false
}

// move replaces the network bits of addr by those of prefix.
func move(addr netip.Addr, prefix netip.Prefix) netip.Addr {
	host, network := addr.AsSlice(), prefix.Addr().AsSlice()
	for i := range host {
		bits := min(max(prefix.Bits()-8*i, 0), 8) // network bits of this byte
		mask := byte(0xff) << (8 - bits)
		host[i] = network[i]&mask | host[i]&^mask
	}
	out, _ := netip.AddrFromSlice(host) // host has the length of an address
	return out
}
