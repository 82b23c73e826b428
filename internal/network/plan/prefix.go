// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"net/netip"
	"slices"

	"liqo.io/liqo/internal/datapath"
)

// isUsable reports whether the address is of one family, has no zone and is not unspecified.
func isUsable(a netip.Addr) bool {
	return a.IsValid() && !a.Is4In6() && a.Zone() == "" && !a.IsUnspecified()
}

// isRoutable reports whether a host can use the address towards other hosts.
func isRoutable(a netip.Addr) bool {
	return isUsable(a) && !slices.ContainsFunc(reserved, func(t ReservedPrefix) bool { return t.Prefix.Contains(a) })
}

// usablePrefix reports whether the prefix is of one family and has neither a zone nor host bits.
func usablePrefix(p netip.Prefix) bool { return p.IsValid() && !p.Addr().Is4In6() && p == p.Masked() }

// prefixSet returns the sorted prefixes, without prefixes covered by another prefix.
func prefixSet(in []netip.Prefix) []netip.Prefix {
	var masked, out []netip.Prefix
	for _, p := range in {
		if p = p.Masked(); usablePrefix(p) {
			masked = append(masked, p)
		}
	}
	slices.SortFunc(masked, netip.Prefix.Compare) // a prefix sorts before the prefixes covered by it
	for _, p := range masked {
		if len(out) == 0 || !out[len(out)-1].Overlaps(p) {
			out = append(out, p)
		}
	}
	return out
}

// addressSet returns the routable addresses sorted and without duplicates.
func addressSet(in []netip.Addr) []netip.Addr {
	out := slices.DeleteFunc(slices.Clone(in), func(a netip.Addr) bool { return !isRoutable(a) })
	slices.SortFunc(out, netip.Addr.Compare)
	return slices.Compact(out)
}

// hostPrefixes returns the routable addresses as prefixes.
func hostPrefixes(addrs ...netip.Addr) []netip.Prefix {
	var out []netip.Prefix
	for _, a := range addrs {
		if isRoutable(a) {
			out = append(out, hostPrefix(a))
		}
	}
	return out
}

func hostPrefix(a netip.Addr) netip.Prefix { return netip.PrefixFrom(a, a.BitLen()) }

func containsAddr(prefixes []netip.Prefix, a netip.Addr) bool {
	return slices.ContainsFunc(prefixes, func(p netip.Prefix) bool { return p.Contains(a) })
}

// setContains reports whether a prefixSet contains an address.
func setContains(set []netip.Prefix, a netip.Addr) bool {
	i, found := slices.BinarySearchFunc(set, a, func(p netip.Prefix, a netip.Addr) int { return p.Addr().Compare(a) })
	return found || i > 0 && set[i-1].Contains(a)
}

// ofFamily returns the prefixes of a family.
func ofFamily(in []netip.Prefix, f datapath.Family) []netip.Prefix {
	return slices.DeleteFunc(slices.Clone(in), func(p netip.Prefix) bool { return familyOf(p) != f })
}

// prefixText returns a prefix for messages.
func prefixText(p netip.Prefix) string {
	if p.IsSingleIP() {
		return p.Addr().String()
	}
	return p.String()
}

func compareBool(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	}
	return 1
}
