// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"testing"

	"liqo.io/liqo/internal/datapath"
)

type observed struct {
	state  datapath.State
	drops  map[string]uint64
	failed error
}

func (o observed) Observe() (datapath.State, error) { return o.state, o.failed }

func (o observed) Counted() (map[string]uint64, error) { return o.drops, nil }

func TestStateHandler(t *testing.T) {
	state := datapath.State{Addresses: []datapath.Address{{Device: "lo", Prefix: netip.MustParsePrefix("10.70.0.5/32")}}}
	for name, c := range map[string]struct {
		of     observed
		status int
		text   string
	}{
		"state and drops": {observed{state: state, drops: map[string]uint64{"spoofed": 3, "guarded": 1}}, http.StatusOK,
			"addr 10.70.0.5/32 dev lo\ndropped 1 packets: guarded\ndropped 3 packets: spoofed\n"},
		"an error": {observed{failed: errors.New("no socket")}, http.StatusInternalServerError, "reading the kernel: no socket\n"},
	} {
		t.Run(name, func(t *testing.T) {
			answer := httptest.NewRecorder()
			newStateHandler(c.of).ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "/debug/network", nil))
			if answer.Code != c.status || answer.Body.String() != c.text {
				t.Errorf("%d %q", answer.Code, answer.Body)
			}
		})
	}
}
