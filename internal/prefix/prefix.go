// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

// Package prefix allocates prefixes and addresses from pools, and translates addresses of a peer between what they are there and what they are here: prefix by prefix, with
// the host bits kept.
package prefix

import (
	"fmt"
	"net/netip"
)

// Pair is a prefix of the peer, as it is there and as it is here. Both have the same length.
type Pair struct{ There, Here netip.Prefix }

// Map holds the prefixes of one peer. No two of them overlap, neither there nor here.
type Map struct{ pairs []Pair }

// New makes the map of prefixes there to those here, one by one.
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

// Here returns what an address of the peer is here; false if it is in none of its prefixes.
func (m Map) Here(there netip.Addr) (netip.Addr, bool) {
	for _, p := range m.pairs {
		if p.There.Contains(there) {
			return move(there, p.Here), true
		}
	}
	return netip.Addr{}, false
}

// There returns what an address here is for the peer; false if it is none of the peer's.
func (m Map) There(here netip.Addr) (netip.Addr, bool) {
	for _, p := range m.pairs {
		if p.Here.Contains(here) {
			return move(here, p.There), true
		}
	}
	return netip.Addr{}, false
}

// move keeps the host bits of addr and takes the others from prefix.
func move(addr netip.Addr, prefix netip.Prefix) netip.Addr {
	host, network := addr.AsSlice(), prefix.Addr().AsSlice()
	for i := range host {
		bits := min(max(prefix.Bits()-8*i, 0), 8) // of this byte are the network's
		mask := byte(0xff) << (8 - bits)
		host[i] = network[i]&mask | host[i]&^mask
	}
	out, _ := netip.AddrFromSlice(host) // of the length of an address
	return out
}
