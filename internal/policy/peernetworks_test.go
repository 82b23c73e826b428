// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
)

// networksOf parses "pods;external", each with spaces in between.
func networksOf(text string) *networkingv1beta1.ClusterConfig {
	if text == "" {
		return nil
	}
	out := &networkingv1beta1.ClusterConfig{}
	pods, external, _ := strings.Cut(text, ";")
	for _, cidr := range strings.Fields(pods) {
		out.CIDR.Pod = append(out.CIDR.Pod, networkingv1beta1.CIDR(cidr))
	}
	for _, cidr := range strings.Fields(external) {
		out.CIDR.External = append(out.CIDR.External, networkingv1beta1.CIDR(cidr))
	}
	return out
}

func TestPeerNetworks(t *testing.T) {
	for name, test := range map[string]struct {
		reported string
		valid    bool
	}{
		"usual":       {"10.200.0.0/16;10.70.0.0/16", true},
		"two_pods":    {"10.200.0.0/16 10.201.0.0/16;10.70.0.0/16", true},
		"dual_stack":  {"10.200.0.0/16 fd00:200::/56;10.70.0.0/16", true},
		"nothing":     {"", false},
		"no_pods":     {";10.70.0.0/16", false},
		"no_external": {"10.200.0.0/16;", false},
		"text":        {"all;10.70.0.0/16", false},
		"host_bits":   {"10.200.0.1/16;10.70.0.0/16", false},
		"overlap":     {"10.200.0.0/16;10.200.1.0/24", false},
		"too_large":   {"10.0.0.0/8;192.168.0.0/16", false},
		"too_large_6": {"10.200.0.0/16 fd00::/32;10.70.0.0/16", false},
		"mapped":      {"::ffff:10.200.0.0/112;10.70.0.0/16", false},
		"too_many":    {"10.1.0.0/16 10.2.0.0/16 10.3.0.0/16 10.4.0.0/16 10.5.0.0/16 10.6.0.0/16 10.7.0.0/16 10.8.0.0/16 10.9.0.0/16;10.70.0.0/16", false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := PeerNetworks(networksOf(test.reported)); (got != nil) != test.valid {
				t.Errorf("got %+v", got)
			}
		})
	}
}

func TestPeerProxy(t *testing.T) {
	for reported, want := range map[networkingv1beta1.IP]networkingv1beta1.IP{
		"10.70.0.9": "10.70.0.9", "": "", "10.200.0.9": "", "10.71.0.9": "", "169.254.169.254": "", "10.70.0.9/16": "", "proxy": "",
	} {
		networks := networksOf("10.200.0.0/16;10.70.0.0/16")
		networks.APIServerProxyIP = reported
		if got := PeerNetworks(networks).APIServerProxyIP; got != want || networks.APIServerProxyIP != reported {
			t.Errorf("%q becomes %q, want %q; the report has %q", reported, got, want, networks.APIServerProxyIP)
		}
	}
}

func TestNextNetworks(t *testing.T) {
	const now = "10.200.0.0/16 10.201.0.0/16;10.70.0.0/16"
	for name, test := range map[string]struct{ present, reported, agreed, want string }{
		"same":                  {now, now, now, ""},
		"other_order":           {now, "10.201.0.0/16 10.200.0.0/16;10.70.0.0/16", now, ""},
		"network_more":          {now, "10.202.0.0/16 10.200.0.0/16 10.201.0.0/16;10.70.0.0/16", now, "10.200.0.0/16 10.201.0.0/16 10.202.0.0/16;10.70.0.0/16"},
		"network_less":          {now, "10.201.0.0/16;10.70.0.0/16", now, "10.201.0.0/16;10.70.0.0/16"},
		"other_external":        {now, "10.200.0.0/16 10.201.0.0/16;10.99.0.0/16", now, "10.200.0.0/16 10.201.0.0/16;10.99.0.0/16"},
		"never_agreed":          {now, "10.201.0.0/16;10.70.0.0/16", "", ""},
		"edited_by_the_author":  {now, "10.201.0.0/16;10.70.0.0/16", "10.200.0.0/16;10.70.0.0/16", ""},
		"nothing_reported":      {now, "", now, ""},
		"invalid_report":        {now, "10.0.0.0/8;10.70.0.0/16", now, ""},
		"agreed_in_other_order": {now, "10.201.0.0/16;10.70.0.0/16", "10.201.0.0/16 10.200.0.0/16;10.70.0.0/16", "10.201.0.0/16;10.70.0.0/16"},
	} {
		t.Run(name, func(t *testing.T) {
			got, differs := NextNetworks(*networksOf(test.present), networksOf(test.reported), networksOf(test.agreed))
			want := networksOf(test.want)
			if want == nil {
				want = networksOf(test.present)
			}
			if diff := cmp.Diff(*want, got); diff != "" || differs != (test.want != "") {
				t.Errorf("differs is %t, -want +got:\n%s", differs, diff)
			}
		})
	}
}
