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
