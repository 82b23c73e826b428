// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package dashboard

import (
	"testing"

	"liqo.io/liqo/internal/ctl/fleet"
)

func TestTunnelText(t *testing.T) {
	for want, tunnels := range map[string][]fleet.Tunnel{
		"-":                                 nil,
		"Connected 3.25ms":                  {{State: "Connected", LatencyMilliseconds: new(3.25)}},
		"Error 3.25ms, loses large packets": {{State: "Error", LatencyMilliseconds: new(3.25), Lost: "Large"}},
		"Connected 3.25ms, 12.3 Mbit/s in, 0.0 out": {{State: "Connected", LatencyMilliseconds: new(3.25), ReceivedBitsPerSecond: new(int64(12_345_678)), SentBitsPerSecond: new(int64(1000))}},
		"Connected, loses 20 %":                     {{State: "Connected", LossPercent: new(20.0)}},
		"Connected":                                 {{State: "Connected", LossPercent: new(0.0)}},
		"Error, not from a b; Connecting":           {{State: "Error", FailedNodes: []string{"a", "b"}}, {State: "Connecting"}},
	} {
		if got := tunnelText(tunnels); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
