// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"net/netip"
	"slices"

	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
)

// Limits of the networks that a peer reports: each takes as much of the ranges of this cluster.
const (
	maxReportedNetworks = 8
	minReportedBits     = 12 // of IPv4
	minReportedBits6    = 48
)

// PeerNetworks returns the networks reported by a peer, or nil if incomplete, invalid or too large. A proxy outside of the networks is omitted.
func PeerNetworks(reported *networkingv1beta1.ClusterConfig) *networkingv1beta1.ClusterConfig {
	if reported == nil {
		return nil
	}
	var all []netip.Prefix
	for _, cidrs := range [][]networkingv1beta1.CIDR{reported.CIDR.Pod, reported.CIDR.External} {
		if len(cidrs) == 0 || len(cidrs) > maxReportedNetworks {
			return nil
		}
		for _, text := range cidrs {
			p, err := netip.ParsePrefix(string(text))
			minimum := minReportedBits
			if err == nil && p.Addr().Is6() {
				minimum = minReportedBits6
			}
			if err != nil || p.Addr().Is4In6() || p.Masked() != p || p.Bits() < minimum || slices.ContainsFunc(all, p.Overlaps) {
				return nil
			}
			all = append(all, p)
		}
	}
	out := reported.DeepCopy()
	if proxy, err := netip.ParseAddr(string(out.APIServerProxyIP)); err != nil || !slices.ContainsFunc(all[len(out.CIDR.Pod):], func(p netip.Prefix) bool { return p.Contains(proxy) }) {
		out.APIServerProxyIP = ""
	}
	return out
}

// SameNetworks reports whether two clusters' networks are the same, in any order.
func SameNetworks(a, b networkingv1beta1.ClusterConfig) bool {
	same := func(a, b []networkingv1beta1.CIDR) bool {
		return slices.Equal(slices.Sorted(slices.Values(a)), slices.Sorted(slices.Values(b)))
	}
	return same(a.CIDR.Pod, b.CIDR.Pod) && same(a.CIDR.External, b.CIDR.External)
}

// NextNetworks returns the next networks of a Configuration, and true if they differ from the present ones: the networks reported by the
// peer, if the present networks are the last agreed ones. Networks of the Configuration's author stay. Present networks keep their
// order.
func NextNetworks(present networkingv1beta1.ClusterConfig, reported, agreed *networkingv1beta1.ClusterConfig) (networkingv1beta1.ClusterConfig, bool) {
	valid := PeerNetworks(reported)
	if valid == nil || agreed == nil || !SameNetworks(present, *agreed) || SameNetworks(present, *valid) {
		return present, false
	}
	inOrder := func(present, next []networkingv1beta1.CIDR) []networkingv1beta1.CIDR {
		out := slices.DeleteFunc(slices.Clone(present), func(c networkingv1beta1.CIDR) bool { return !slices.Contains(next, c) })
		return append(out, slices.DeleteFunc(slices.Clone(next), func(c networkingv1beta1.CIDR) bool { return slices.Contains(present, c) })...)
	}
	return networkingv1beta1.ClusterConfig{CIDR: networkingv1beta1.ClusterConfigCIDR{
		Pod: inOrder(present.CIDR.Pod, valid.CIDR.Pod), External: inOrder(present.CIDR.External, valid.CIDR.External),
	}}, true
}
