// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package wg

import (
	"net/netip"
	"testing"
)

func TestDropsCounted(t *testing.T) {
	a, b := tunnelUp(t)
	to := a.udp(a.inner[0].Addr())
	for i, stranger := range []string{"10.9.9.9", "fd00:9::9"} {
		from := netip.MustParseAddr(stranger)
		b.do(func() error { return addAddresses(tunnelName, netip.PrefixFrom(from, from.BitLen())) })
		if i > 0 {
			to = a.udp(a.inner[1].Addr())
		}
		sender, before := b.udp(from), a.status().Refused
		for range 3 {
			if _, err := sender.WriteTo([]byte("hello"), to.LocalAddr()); err != nil {
				t.Fatal(err)
			}
		}
		await(t, "three packets to be counted", func() bool { return a.status().Refused == before+3 })
		if n := drain(t, to, 0); n != 0 {
			t.Errorf("%d packets from %s came through", n, from)
		}
	}
}
