// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package network

import (
	"maps"
	"testing"

	ipamv1alpha1 "liqo.io/liqo/api/ipam/v1alpha1"
	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
)

func TestInheritPrefixes(t *testing.T) {
	network := func(remote, local networkingv1beta1.CIDR) ipamv1alpha1.Network {
		return ipamv1alpha1.Network{Spec: ipamv1alpha1.NetworkSpec{CIDR: remote}, Status: ipamv1alpha1.NetworkStatus{CIDR: local}}
	}
	kept, old, other, none := network("10.1.0.0/16", "10.61.0.0/16"), network("10.2.0.0/16", "10.62.0.0/16"), network("10.3.0.0/16", "10.67.0.0/16"), network("10.4.0.0/16", "")
	for i, n := range []*ipamv1alpha1.Network{&kept, &old, &other, &none} {
		n.Name = string(rune('a' + i))
	}
	current := []ipamv1alpha1.Network{kept, old, other, none}
	for name, tc := range map[string]struct {
		remote   []networkingv1beta1.CIDR
		obsolete []*ipamv1alpha1.Network
		want     map[networkingv1beta1.CIDR]networkingv1beta1.CIDR
	}{
		"equal":                     {cidrs("10.1.0.0/16", "10.9.0.0/16"), []*ipamv1alpha1.Network{&old}, map[networkingv1beta1.CIDR]networkingv1beta1.CIDR{"10.9.0.0/16": "10.62.0.0/16"}},
		"one each":                  {cidrs("10.9.0.0/16", "10.8.0.0/16"), []*ipamv1alpha1.Network{&old, &other}, map[networkingv1beta1.CIDR]networkingv1beta1.CIDR{"10.9.0.0/16": "10.62.0.0/16", "10.8.0.0/16": "10.67.0.0/16"}},
		"more than before":          {cidrs("10.9.0.0/16", "10.8.0.0/16"), []*ipamv1alpha1.Network{&old}, map[networkingv1beta1.CIDR]networkingv1beta1.CIDR{"10.9.0.0/16": "10.62.0.0/16"}},
		"smaller":                   {cidrs("10.9.0.0/20"), []*ipamv1alpha1.Network{&old}, map[networkingv1beta1.CIDR]networkingv1beta1.CIDR{"10.9.0.0/20": "10.62.0.0/20"}},
		"a part":                    {cidrs("10.2.128.0/17"), []*ipamv1alpha1.Network{&other, &old}, map[networkingv1beta1.CIDR]networkingv1beta1.CIDR{"10.2.128.0/17": "10.62.128.0/17"}},
		"what contains it":          {cidrs("10.2.0.0/15"), []*ipamv1alpha1.Network{&old}, map[networkingv1beta1.CIDR]networkingv1beta1.CIDR{"10.2.0.0/15": "10.62.0.0/15"}},
		"contains it elsewhere":     {cidrs("10.2.0.0/15"), []*ipamv1alpha1.Network{&other}, map[networkingv1beta1.CIDR]networkingv1beta1.CIDR{"10.2.0.0/15": "10.66.0.0/15"}},
		"larger":                    {cidrs("10.8.0.0/15"), []*ipamv1alpha1.Network{&old}, map[networkingv1beta1.CIDR]networkingv1beta1.CIDR{"10.8.0.0/15": "10.62.0.0/15"}},
		"its own network first":     {cidrs("10.9.0.0/16", "10.2.128.0/17"), []*ipamv1alpha1.Network{&old}, map[networkingv1beta1.CIDR]networkingv1beta1.CIDR{"10.2.128.0/17": "10.62.128.0/17"}},
		"larger, into a kept one":   {cidrs("10.0.0.0/14"), []*ipamv1alpha1.Network{&old}, nil},
		"larger, begins before":     {cidrs("10.8.0.0/15"), []*ipamv1alpha1.Network{&other}, nil},
		"another family":            {cidrs("fd00::/64"), []*ipamv1alpha1.Network{&old}, nil},
		"the old one has no prefix": {cidrs("10.9.0.0/16"), []*ipamv1alpha1.Network{&none}, nil},
		"nothing is new":            {cidrs("10.1.0.0/16"), []*ipamv1alpha1.Network{&old}, nil},
	} {
		if got := inheritPrefixes(tc.remote, current, tc.obsolete); len(got)+len(tc.want) > 0 && !maps.Equal(got, tc.want) {
			t.Errorf("%s: %v, want %v", name, got, tc.want)
		}
	}
}
