// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package remap

import (
	"fmt"
	"net/netip"
	"slices"

	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	netv1beta1 "liqo.io/liqo/api/networking/v1beta1"
)

// Of returns the map of the peer that a Configuration describes; false while its prefixes have no place here, or what is
// said of that is about an older version of them.
func Of(c *netv1beta1.Configuration) (Map, bool, error) {
	placed := apimeta.FindStatusCondition(c.Status.Conditions, netv1beta1.ConditionNetworkCIDRsConfigured)
	if placed == nil || placed.Status != metav1.ConditionTrue || placed.ObservedGeneration != c.Generation || c.Status.Remote == nil {
		return Map{}, false, nil
	}
	there, err := Prefixes(slices.Concat(c.Spec.Remote.CIDR.Pod, c.Spec.Remote.CIDR.External))
	if err != nil {
		return Map{}, false, fmt.Errorf("reading the networks of the peer: %w", err)
	}
	if len(c.Spec.Remote.CIDR.Pod) != len(c.Status.Remote.CIDR.Pod) {
		return Map{}, false, fmt.Errorf("%d pod networks there and %d here", len(c.Spec.Remote.CIDR.Pod), len(c.Status.Remote.CIDR.Pod))
	}
	here, err := Prefixes(slices.Concat(c.Status.Remote.CIDR.Pod, c.Status.Remote.CIDR.External))
	if err != nil {
		return Map{}, false, fmt.Errorf("reading the local view of the networks of the peer: %w", err)
	}
	m, err := New(there, here)
	return m, err == nil, err
}

// Prefixes reads networks.
func Prefixes(cidrs []netv1beta1.CIDR) ([]netip.Prefix, error) {
	out := make([]netip.Prefix, 0, len(cidrs))
	for _, text := range cidrs {
		p, err := netip.ParsePrefix(string(text))
		if err != nil {
			return nil, err
		}
		out = append(out, p.Masked())
	}
	return out, nil
}

// Equal tells whether both maps translate alike.
func (m Map) Equal(other Map) bool { return slices.Equal(m.pairs, other.pairs) }
