// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package prefix

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"go4.org/netipx"
)

// Claim is a prefix in use.
type Claim struct {
	Prefix netip.Prefix
	// Shared claims may overlap other shared claims only.
	Shared bool
	// Apart claims do not attract neighbours: a block with only such claims counts as unused.
	Apart bool
	// Of is the owner, for messages.
	Of string
}

// Want is a requested prefix.
type Want struct {
	Prefix netip.Prefix
	// Preferred is granted instead if it is free, in a pool and of the same length.
	Preferred netip.Prefix
	// Fixed requests exactly this prefix; otherwise any prefix of the same length is acceptable.
	Fixed bool
	// Shared requests a prefix that may overlap with shared prefixes. Shared requires Fixed.
	Shared bool
}

// Conflict is the error of a fixed prefix that is in use.
type Conflict struct {
	Want netip.Prefix
	With []Claim
}

// named limits the claims named in a Conflict: there may be one per node.
const named = 5

func (e *Conflict) Error() string {
	var with []string
	for _, c := range e.With[:min(len(e.With), named)] {
		with = append(with, fmt.Sprintf("%s of %s", c.Prefix, c.Of))
	}
	if more := len(e.With) - named; more > 0 {
		with = append(with, fmt.Sprintf("and %d more", more))
	}
	return fmt.Sprintf("%s overlaps %s", e.Want, strings.Join(with, ", "))
}

// Exhausted is the error if no prefix of the length is free.
type Exhausted struct {
	Bits  int
	Pools []netip.Prefix
}

func (e *Exhausted) Error() string {
	if len(e.Pools) == 0 {
		return fmt.Sprintf("no pool has prefixes of length %d", e.Bits)
	}
	return fmt.Sprintf("no prefix of length %d is free in %s", e.Bits, list(e.Pools))
}

// OutOfPools is the error of a fixed, unshared prefix outside the pools: nothing prevents other uses of the prefix.
type OutOfPools struct {
	Want  netip.Prefix
	Pools []netip.Prefix
}

func (e *OutOfPools) Error() string { return fmt.Sprintf("%s is not in %s", e.Want, list(e.Pools)) }

func list(prefixes []netip.Prefix) string {
	out := make([]string, 0, len(prefixes))
	for _, p := range prefixes {
		out = append(out, p.String())
	}
	return strings.Join(out, ", ")
}

// Grant returns the allocated prefix without host bits: the preferred or the requested prefix if free, else, unless Fixed, a free prefix of the same
// length. Grant is stateless: taken holds all present claims, so that the result is the same after a restart; the result must be among the claims of
// the next call. The error is a Conflict, Exhausted or OutOfPools.
//
// Among free prefixes beside prefixes in use, the lowest is preferred, to keep large blocks free: as in the original.
func Grant(pools []netip.Prefix, taken []Claim, want Want) (netip.Prefix, error) {
	prefix := want.Prefix.Masked()
	if p := want.Preferred.Masked(); !want.Fixed && p.IsValid() && p.Bits() == prefix.Bits() && p.Addr().BitLen() == prefix.Addr().BitLen() &&
		len(overlapping(taken, p, false)) == 0 && slices.ContainsFunc(pools, func(pool netip.Prefix) bool { return covers(pool, p) }) {
		return p, nil
	}
	shared := want.Fixed && want.Shared
	with := overlapping(taken, prefix, shared)
	pooled := slices.ContainsFunc(pools, func(pool netip.Prefix) bool { return covers(pool, prefix) })
	switch {
	case want.Fixed && len(with) > 0:
		return netip.Prefix{}, &Conflict{Want: prefix, With: with}
	case want.Fixed && !shared && !pooled:
		return netip.Prefix{}, &OutOfPools{Want: prefix, Pools: pools}
	case want.Fixed, pooled && len(with) == 0:
		return prefix, nil
	}
	var ofFamily []netip.Prefix
	for _, pool := range pools {
		if pool.Addr().BitLen() != prefix.Addr().BitLen() || pool.Bits() > prefix.Bits() {
			continue
		}
		ofFamily = append(ofFamily, pool)
		if free, ok := find(pool.Masked(), prefix.Bits(), overlapping(taken, pool, false)); ok {
			return free, nil
		}
	}
	return netip.Prefix{}, &Exhausted{Bits: prefix.Bits(), Pools: ofFamily}
}

// overlapping returns the claims in conflict with p. With shared, shared claims are no conflict.
func overlapping(taken []Claim, p netip.Prefix, shared bool) []Claim {
	var out []Claim
	for _, c := range taken {
		if c.Prefix.Overlaps(p) && !(shared && c.Shared) {
			out = append(out, c)
		}
	}
	return out
}

// find returns a free prefix of a length in a block; taken are the claims overlapping the block.
func find(block netip.Prefix, bits int, taken []Claim) (netip.Prefix, bool) {
	switch {
	case len(taken) == 0:
		return netip.PrefixFrom(block.Addr(), bits), true
	case block.Bits() == bits, slices.ContainsFunc(taken, func(c Claim) bool { return covers(c.Prefix, block) }):
		return netip.Prefix{}, false
	}
	halves := split(block)
	if !inUse(halves[0], taken) && inUse(halves[1], taken) {
		slices.Reverse(halves[:])
	}
	for _, half := range halves {
		within := slices.DeleteFunc(slices.Clone(taken), func(c Claim) bool { return !c.Prefix.Overlaps(half) })
		if free, ok := find(half, bits, within); ok {
			return free, true
		}
	}
	return netip.Prefix{}, false
}

// inUse reports whether a part of the block is in use, but not the whole block by one claim.
func inUse(block netip.Prefix, taken []Claim) bool {
	return slices.ContainsFunc(taken, func(c Claim) bool { return !c.Apart && c.Prefix.Bits() > block.Bits() && block.Overlaps(c.Prefix) })
}

func covers(outer, inner netip.Prefix) bool {
	return outer.Bits() <= inner.Bits() && outer.Overlaps(inner)
}

// split returns the two halves of a block larger than one address.
func split(block netip.Prefix) [2]netip.Prefix {
	bits := block.Bits() + 1
	raw := block.Addr().AsSlice()
	raw[(bits-1)/8] |= 0x80 >> ((bits - 1) % 8)
	upper, _ := netip.AddrFromSlice(raw) // raw has the length of an address
	return [2]netip.Prefix{netip.PrefixFrom(block.Addr(), bits), netip.PrefixFrom(upper, bits)}
}

// Address returns a free address of a prefix, and false if exhausted: the first after last in circular order, so that a released address is not
// reused soon. The first reserved addresses are never returned; the network and broadcast addresses are.
func Address(within netip.Prefix, reserved int, last netip.Addr, taken func(netip.Addr) bool) (netip.Addr, bool) {
	first := plus(within.Masked().Addr(), reserved)
	return search(within, first, first, last, netip.Addr.Next, taken)
}

// AddressFromTheEnd is Address in the other direction, from the last address of the prefix.
func AddressFromTheEnd(within netip.Prefix, reserved int, last netip.Addr, taken func(netip.Addr) bool) (netip.Addr, bool) {
	return search(within, plus(within.Masked().Addr(), reserved), netipx.PrefixLastIP(within), last, netip.Addr.Prev, taken)
}

// search returns the first free address in circular order after last, among the addresses of the prefix from lowest on; without a last it
// starts at begin.
func search(within netip.Prefix, lowest, begin, last netip.Addr, next func(netip.Addr) netip.Addr, taken func(netip.Addr) bool) (netip.Addr, bool) {
	inside := func(a netip.Addr) bool { return within.Contains(a) && !a.Less(lowest) }
	if !inside(lowest) {
		return netip.Addr{}, false
	}
	start := begin
	if inside(last) && inside(next(last)) {
		start = next(last)
	}
	for addr := start; ; {
		if !taken(addr) {
			return addr, true
		}
		if addr = next(addr); !inside(addr) {
			addr = begin
		}
		if addr == start {
			return netip.Addr{}, false
		}
	}
}

// plus returns the nth address after addr, the zero Addr if it does not exist.
func plus(addr netip.Addr, n int) netip.Addr {
	raw := addr.AsSlice()
	for i := len(raw) - 1; i >= 0 && n > 0; i-- {
		n += int(raw[i])
		raw[i] = byte(n)
		n >>= 8
	}
	if n > 0 {
		return netip.Addr{}
	}
	out, _ := netip.AddrFromSlice(raw) // raw has the length of an address
	return out
}
