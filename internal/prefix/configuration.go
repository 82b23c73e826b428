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

// Networks are the peer's networks in a Configuration.
type Networks struct{ Pods, External []Pair }

// Placed returns the networks of a peer with their local CIDRs; false while these are not allocated, or were allocated for other networks.
// Other changes of the Configuration have no effect. Unreadable networks are left out, each with an error.
func Placed(c *networkingv1beta1.Configuration) (Networks, bool, []error) {
	condition := apimeta.FindStatusCondition(c.Status.Conditions, networkingv1beta1.ConditionNetworkCIDRsConfigured)
	if condition == nil || condition.Status != metav1.ConditionTrue || c.Status.Remote == nil || !isForCurrentNetworks(c, condition) {
		return Networks{}, false, nil
	}
	remote, local := c.Spec.Remote.CIDR, c.Status.Remote.CIDR
	pods, errs := Pairs("pod", remote.Pod, local.Pod)
	external, more := Pairs("external", remote.External, local.External)
	return Networks{Pods: pods, External: external}, true, append(errs, more...)
}

// isForCurrentNetworks reports whether the status is for the present networks of the Configuration.
func isForCurrentNetworks(c *networkingv1beta1.Configuration, condition *metav1.Condition) bool {
	of, now := c.Status.ObservedRemote, c.Spec.Remote.CIDR
	if of == nil { // written by an earlier version
		return condition.ObservedGeneration == c.Generation
	}
	return slices.Equal(of.CIDR.Pod, now.Pod) && slices.Equal(of.CIDR.External, now.External)
}

// Pairs pairs two lists of networks of one kind by index. Unreadable ones are left out, each with an error.
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

// Of returns the Map of the peer in a Configuration; false while its networks are not Placed.
func Of(c *networkingv1beta1.Configuration) (Map, bool, error) {
	networks, placed, errs := Placed(c)
	if !placed || len(errs) > 0 {
		return Map{}, false, errors.Join(errs...)
	}
	m, err := mapOf(slices.Concat(networks.Pods, networks.External))
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
func (m Map) Equal(other Map) bool { return slices.Equal(m.pairs, other.pairs) }
