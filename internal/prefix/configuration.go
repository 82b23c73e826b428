// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package prefix

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"

	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
)

// Networks are the peer's networks in a Configuration that have local CIDRs.
type Networks struct{ Pods, External []Pair }

// Placed returns the networks of a peer with their local CIDRs; false while no network has a local CIDR. Networks are independent: an added network,
// or a network without a local CIDR yet, does not change the others, and a network removed from the spec is left out at once. Unreadable networks are
// left out, each with an error.
func Placed(c *networkingv1beta1.Configuration) (Networks, bool, []error) {
	condition := apimeta.FindStatusCondition(c.Status.Conditions, networkingv1beta1.ConditionNetworkCIDRsConfigured)
	if condition == nil || c.Status.Remote == nil {
		return Networks{}, false, nil
	}
	complete := condition.Status == metav1.ConditionTrue
	spec, remote, local := c.Spec.Remote.CIDR, c.Spec.Remote.CIDR, c.Status.Remote.CIDR
	if of := c.Status.ObservedRemote; of != nil {
		remote = of.CIDR
	} else if !complete || condition.ObservedGeneration != c.Generation { // written by an earlier version
		return Networks{}, false, nil
	}
	if !complete && (len(remote.Pod) != len(local.Pod) || len(remote.External) != len(local.External)) { // by an earlier version, too
		return Networks{}, false, nil
	}
	pods, errs := pairsIn(spec.Pod, "pod", remote.Pod, local.Pod)
	external, more := pairsIn(spec.External, "external", remote.External, local.External)
	return Networks{Pods: pods, External: external}, len(pods)+len(external) > 0, append(errs, more...)
}

// pairsIn returns the Pairs whose remote network is in a list.
func pairsIn(list []networkingv1beta1.CIDR, kind string, remote, local []networkingv1beta1.CIDR) ([]Pair, []error) {
	if len(remote) != len(local) {
		return Pairs(kind, remote, local)
	}
	var from, to []networkingv1beta1.CIDR
	for i := range remote {
		if slices.Contains(list, remote[i]) {
			from, to = append(from, remote[i]), append(to, local[i])
		}
	}
	return Pairs(kind, from, to)
}

// Pairs pairs two lists of networks of one kind by index. Unreadable networks are left out, each with an error.
func Pairs(kind string, remote, local []networkingv1beta1.CIDR) (out []Pair, errs []error) {
	if len(remote) != len(local) {
		return nil, []error{fmt.Errorf("the peer has %d %s networks, and %d are mapped", len(remote), kind, len(local))}
	}
	for i := range remote {
		t, err := ParsePrefix(string(remote[i]))
		if err != nil {
			errs = append(errs, fmt.Errorf("spec.remote.cidr.%s: %w", kind, err))
		}
		h, also := ParsePrefix(string(local[i]))
		if also != nil {
			errs = append(errs, fmt.Errorf("status.remote.cidr.%s: %w", kind, also))
		}
		if err == nil && also == nil {
			out = append(out, Pair{Remote: t, Local: h})
		}
	}
	return out, errs
}

// Of returns the Map of the peer in a Configuration; false while none of its networks is Placed.
func Of(c *networkingv1beta1.Configuration) (Map, bool, error) {
	networks, placed, errs := Placed(c)
	if !placed || len(errs) > 0 {
		return Map{}, false, errors.Join(errs...)
	}
	m, err := mapOf(slices.Concat(networks.Pods, networks.External))
	for _, text := range slices.Concat(c.Spec.Remote.CIDR.Pod, c.Spec.Remote.CIDR.External) {
		if p, err := ParsePrefix(string(text)); err == nil && !slices.ContainsFunc(m.pairs, func(pair Pair) bool { return pair.Remote == p }) {
			m.awaited = append(m.awaited, p)
		}
	}
	return m, err == nil, err
}

// PodsOf returns the Map of the networks of the peer's pods in a Configuration; false while they are not Placed.
func PodsOf(c *networkingv1beta1.Configuration) (Map, bool) {
	networks, placed, errs := Placed(c)
	if !placed || len(errs) > 0 || len(networks.Pods) == 0 {
		return Map{}, false
	}
	m, err := mapOf(networks.Pods)
	return m, err == nil
}

// ParsePrefix parses a network and drops host bits.
func ParsePrefix(text string) (netip.Prefix, error) {
	p, err := netip.ParsePrefix(text)
	if err != nil || p.Addr().Is4In6() {
		return netip.Prefix{}, fmt.Errorf("%q is not a network", text)
	}
	return p.Masked(), nil
}

// Prefixes parses networks.
func Prefixes(cidrs []networkingv1beta1.CIDR) ([]netip.Prefix, error) {
	out := make([]netip.Prefix, 0, len(cidrs))
	for _, text := range cidrs {
		p, err := ParsePrefix(string(text))
		if err != nil {
			return nil, err
		}
		out = append(out, p)
	}
	return out, nil
}

// Equal reports whether both maps translate alike.
func (m Map) Equal(other Map) bool {
	return slices.Equal(m.pairs, other.pairs) && slices.Equal(m.awaited, other.awaited)
}
