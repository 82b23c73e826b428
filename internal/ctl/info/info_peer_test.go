// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package info

import (
	"bytes"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
	"liqo.io/liqo/internal/ctl/ui"
)

func TestInfoUnreachableServer(t *testing.T) {
	want := `┌─ Network ────────────────────────────────────────────────────────────────────┐
│ Status: Healthy                                                              │
│ CIDR                                                                         │
│     Remote                                                                   │
│         Pod CIDR:      10.200.0.0/16, 10.201.0.0/16                          │
│         External CIDR:                                                       │
│ Gateway                                                                      │
│     Role:    Client                                                          │
│     Address:                                                                 │
│     Port:                                                                    │
└──────────────────────────────────────────────────────────────────────────────┘
`
	network := &peerNetworkInfo{moduleInfo: moduleInfo{Status: "Healthy"}, Gateway: gatewayAt(nil, "Client", 0)}
	network.CIDRs.Remote.Pod = []networkingv1beta1.CIDR{"10.200.0.0/16", "10.201.0.0/16"}
	var stdout bytes.Buffer
	ui.NewPrinter(strings.NewReader(""), &stdout, &bytes.Buffer{}).Box(network.newSection())
	if diff := cmp.Diff(want, stdout.String()); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// Of several ranges of a peer, one may have no prefix.
func TestRangesSeenAs(t *testing.T) {
	type cidrs = []networkingv1beta1.CIDR
	ranges := cidrs{"10.9.0.0/16", "10.200.0.0/16"}
	for name, tc := range map[string]struct {
		placed, local cidrs
		want          string
	}{
		"all":                   {ranges, cidrs{"10.72.0.0/16", "10.71.0.0/16"}, "10.9.0.0/16, 10.200.0.0/16 → Remapped to 10.72.0.0/16, 10.71.0.0/16"},
		"as_they_are":           {ranges, ranges, "10.9.0.0/16, 10.200.0.0/16"},
		"one":                   {cidrs{"10.200.0.0/16"}, cidrs{"10.71.0.0/16"}, "10.9.0.0/16, 10.200.0.0/16 → Remapped to none, 10.71.0.0/16"},
		"of_an_earlier_version": {ranges, cidrs{"10.72.0.0/16"}, "10.9.0.0/16, 10.200.0.0/16 → Remapped to 10.72.0.0/16, none"},
		"none_yet":              {nil, nil, "10.9.0.0/16, 10.200.0.0/16"},
	} {
		if got := seenAs(ranges, tc.placed, tc.local); got != tc.want {
			t.Errorf("%s: %q, want %q", name, got, tc.want)
		}
	}
}
