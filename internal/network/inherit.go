// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package network

import (
	"net/netip"
	"slices"

	ipamv1alpha1 "liqo.io/liqo/api/ipam/v1alpha1"
	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
	"liqo.io/liqo/internal/prefix"
)

// inheritPrefixes returns the local prefixes of obsolete Networks for new remote networks, to keep local addresses: of the addresses in both
// networks, or else of the addresses with the same distance from the first address of their network. current are all Networks of the Configuration.
func inheritPrefixes(remote []networkingv1beta1.CIDR, current []ipamv1alpha1.Network, obsolete []*ipamv1alpha1.Network) map[networkingv1beta1.CIDR]networkingv1beta1.CIDR {
	out := map[networkingv1beta1.CIDR]networkingv1beta1.CIDR{}
	remaining := slices.Clone(obsolete)
	var kept []netip.Prefix
	for i := range current {
		if p, err := netip.ParsePrefix(string(current[i].Status.CIDR)); err == nil && !slices.ContainsFunc(obsolete, func(n *ipamv1alpha1.Network) bool { return n.Name == current[i].Name }) {
			kept = append(kept, p)
		}
	}
	for _, common := range []bool{true, false} { // networks with common addresses first
		for _, cidr := range remote {
			next, err := netip.ParsePrefix(string(cidr))
			if err != nil || out[cidr] != "" || slices.ContainsFunc(current, func(n ipamv1alpha1.Network) bool { return n.Spec.CIDR == cidr }) {
				continue
			}
			i := slices.IndexFunc(remaining, func(n *ipamv1alpha1.Network) bool {
				was, errRemote := netip.ParsePrefix(string(n.Spec.CIDR))
				local, errLocal := netip.ParsePrefix(string(n.Status.CIDR))
				if errRemote != nil || errLocal != nil || was.Overlaps(next) != common {
					return false
				}
				p := inheritPrefix(prefix.Pair{Remote: was, Local: local}, next)
				if !p.IsValid() || slices.ContainsFunc(kept, p.Overlaps) {
					return false
				}
				out[cidr] = networkingv1beta1.CIDR(p.String())
				return true
			})
			if i >= 0 {
				remaining = slices.Delete(remaining, i, i+1)
			}
		}
	}
	return out
}

// inheritPrefix returns the local prefix of a network that takes the place of another, the zero value if addresses cannot stay the same.
func inheritPrefix(was prefix.Pair, next netip.Prefix) netip.Prefix {
	if was.Local.Addr().BitLen() != next.Addr().BitLen() {
		return netip.Prefix{}
	}
	from, stays := was.Local.Addr(), next.Addr() // what next begins with is seen there
	switch {
	case was.Remote.Contains(next.Addr()):
		from = prefix.Move(next.Addr(), was.Local)
	case next.Contains(was.Remote.Addr()):
		stays = was.Remote.Addr()
	}
	local := netip.PrefixFrom(from, next.Bits()).Masked()
	if prefix.Move(stays, local) != from {
		return netip.Prefix{}
	}
	return local
}
