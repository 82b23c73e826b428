// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"net/netip"
	"testing"

	"liqo.io/liqo/internal/datapath"
	"liqo.io/liqo/internal/names"
)

// large is a state of 1000 hops, 1000 routes and a map of 5000 addresses.
func large() datapath.State {
	s := samples["ip"].node()
	for i := range 1000 {
		next := netip.AddrFrom4([4]byte{10, 201, byte(i / 250), byte(i % 250)})
		s.Neighbours = append(s.Neighbours, datapath.Neighbour{Device: names.FabricDevice, Next: next, MAC: datapath.MAC(next), Outer: next})
		to := netip.PrefixFrom(netip.AddrFrom4([4]byte{11, byte(i / 250), byte(i % 250), 0}), 24)
		s.Routes = append(s.Routes, datapath.Route{Table: 6091, To: to, Via: next, Device: names.FabricDevice, OnLink: true, MTU: 1340})
	}
	for i := range 5000 {
		alias := netip.AddrFrom4([4]byte{12, 0, byte(i / 250), byte(i % 250)})
		s.Tables[0].Sets[0].Elements = append(s.Tables[0].Sets[0].Elements, datapath.Element{
			Key: []datapath.Value{datapath.Addr(alias)}, Value: []datapath.Value{datapath.Addr(alias.Next())},
		})
	}
	return s
}

func BenchmarkApply(b *testing.B) {
	k := newTestNamespace(b).open(b)
	one, other := large(), large()
	other.Routes[500].MTU = 1300
	b.Run("everything", func(b *testing.B) {
		for b.Loop() {
			k.mustApply(b, one)
			b.StopTimer()
			k.mustApply(b, datapath.State{})
			b.StartTimer()
		}
	})
	k.mustApply(b, one)
	b.Run("nothing", func(b *testing.B) {
		for b.Loop() {
			if c := k.mustApply(b, one); len(c.Writes) > 0 {
				b.Fatal(c.Writes)
			}
		}
	})
	b.Run("a route", func(b *testing.B) {
		for b.Loop() {
			one, other = other, one
			if c := k.mustApply(b, one); len(c.Writes) != 1 {
				b.Fatal(c.Writes)
			}
		}
	})
	more := large()
	more.Tables[0].Sets[0].Elements = more.Tables[0].Sets[0].Elements[:5000]
	k.mustApply(b, one)
	b.Run("an element", func(b *testing.B) {
		more.Routes = one.Routes
		want := []datapath.State{more, one}
		for i := 0; b.Loop(); i++ {
			if c := k.mustApply(b, want[i%2]); len(c.Writes) != 1 {
				b.Fatal(c.Writes)
			}
		}
	})
}
