// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"net/netip"
	"os"
	"testing"
)

func TestServerRemembersClient(t *testing.T) {
	m := memoryIn(t.TempDir())
	if got := m.loadEndpoint(); got.IsValid() {
		t.Errorf("it knows %s from nowhere", got)
	}
	for _, text := range []string{"192.0.2.7:40000", "[2001:db8::7]:40000"} {
		want := netip.MustParseAddrPort(text)
		if err := m.storeEndpoint(want); err != nil {
			t.Fatal(err)
		}
		if got := memoryIn(m.path[:len(m.path)-len(learnedFile)]).loadEndpoint(); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
	if err := m.storeEndpoint(netip.AddrPort{}); err != nil || !m.loadEndpoint().IsValid() {
		t.Errorf("nothing was learned, and that was kept (%v)", err)
	}
	if err := os.WriteFile(m.path, []byte("nonsense"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := m.loadEndpoint(); got.IsValid() {
		t.Errorf("nonsense is %s", got)
	}
	if err := (endpointMemory{}).storeEndpoint(netip.MustParseAddrPort("192.0.2.7:1")); err != nil {
		t.Errorf("without a directory: %v", err)
	}
}
