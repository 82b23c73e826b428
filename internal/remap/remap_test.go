// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package remap

import (
	"net/netip"
	"testing"

	"pgregory.net/rapid"
)

func prefixes(of ...string) (out []netip.Prefix) {
	for _, s := range of {
		out = append(out, netip.MustParsePrefix(s))
	}
	return out
}

func TestAddressesOfAPeer(t *testing.T) {
	m, err := New(prefixes("10.200.0.0/16", "10.70.0.0/16", "172.30.8.0/21", "fd00:1::/32"), prefixes("10.71.0.0/16", "10.70.0.0/16", "192.168.128.0/21", "fd00:9::/32"))
	if err != nil {
		t.Fatal(err)
	}
	for there, want := range map[string]string{
		"10.200.3.4":   "10.71.3.4",
		"10.70.0.1":    "10.70.0.1", // the same on both sides
		"172.30.15.9":  "192.168.135.9",
		"172.30.16.9":  "",
		"10.71.3.4":    "", // ours, not theirs
		"fd00:1::7":    "fd00:9::7",
		"fd00:2::7":    "",
		"192.168.1.50": "",
	} {
		here, ok := m.Here(netip.MustParseAddr(there))
		if ok != (want != "") || ok && here.String() != want {
			t.Errorf("%s is %s, %v; want %s", there, here, ok, want)
		}
	}
	if there, ok := m.There(netip.MustParseAddr("10.71.3.4")); !ok || there.String() != "10.200.3.4" {
		t.Errorf("10.71.3.4 is %s, %v there", there, ok)
	}
	if there, ok := m.There(netip.MustParseAddr("10.200.3.4")); ok {
		t.Errorf("10.200.3.4, which is a pod of ours, is %s there", there)
	}
}

func TestPrefixesThatMakeNoMap(t *testing.T) {
	for name, tc := range map[string]struct {
		there, here []string
		want        string
	}{
		"one less here":       {[]string{"10.0.0.0/16", "10.1.0.0/16"}, []string{"10.0.0.0/16"}, "2 prefixes there and 1 here"},
		"another length":      {[]string{"10.0.0.0/16"}, []string{"10.0.0.0/17"}, "10.0.0.0/16 there and 10.0.0.0/17 here are not of the same length"},
		"another family":      {[]string{"10.0.0.0/16"}, []string{"fd00::/16"}, "10.0.0.0/16 there and fd00::/16 here are not of the same length"},
		"overlapping there":   {[]string{"10.0.0.0/16", "10.0.1.0/24"}, []string{"10.0.0.0/16", "10.1.1.0/24"}, "10.0.0.0/16 and 10.0.1.0/24 there overlap"},
		"overlapping here":    {[]string{"10.0.0.0/16", "10.1.0.0/16"}, []string{"10.5.0.0/16", "10.5.7.7/16"}, "10.5.0.0/16 and 10.5.0.0/16 here overlap"},
		"host bits are meant": {[]string{"10.0.3.4/16", "10.0.5.6/16"}, []string{"10.5.0.0/16", "10.6.0.0/16"}, "10.0.0.0/16 and 10.0.0.0/16 there overlap"},
	} {
		if _, err := New(prefixes(tc.there...), prefixes(tc.here...)); err == nil || err.Error() != tc.want {
			t.Errorf("%s: %v, want %s", name, err, tc.want)
		}
	}
}

// Going there and back changes nothing, and no two addresses become one.
func TestThereAndBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		size := rapid.SampledFrom([]int{4, 16}).Draw(t, "bytes")
		address := func(name string) netip.Addr {
			a, _ := netip.AddrFromSlice(rapid.SliceOfN(rapid.Byte(), size, size).Draw(t, name))
			return a
		}
		there, here, inside := address("there"), address("here"), address("inside")
		bits := rapid.IntRange(0, there.BitLen()).Draw(t, "bits")
		from, to := netip.PrefixFrom(there, bits).Masked(), netip.PrefixFrom(here, bits).Masked()
		m, err := New([]netip.Prefix{from}, []netip.Prefix{to})
		if err != nil {
			t.Fatal(err)
		}
		addr := move(inside, from)
		moved, ok := m.Here(addr)
		if !ok || !to.Contains(moved) {
			t.Fatalf("%s of %s is %s, %v in %s", addr, from, moved, ok, to)
		}
		if back, ok := m.There(moved); !ok || back != addr {
			t.Fatalf("%s is %s here and %s, %v there", addr, moved, back, ok)
		}
	})
}
