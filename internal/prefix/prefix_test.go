// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package prefix

import (
	"math/big"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func prefixes(of ...string) (out []netip.Prefix) {
	for _, s := range of {
		out = append(out, netip.MustParsePrefix(s))
	}
	return out
}

func TestPeerAddresses(t *testing.T) {
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
		here, ok := m.ToLocal(netip.MustParseAddr(there))
		if ok != (want != "") || ok && here.String() != want {
			t.Errorf("%s is %s, %v; want %s", there, here, ok, want)
		}
	}
	if remote, ok := m.ToRemote(netip.MustParseAddr("10.71.3.4")); !ok || remote.String() != "10.200.3.4" {
		t.Errorf("10.71.3.4 is %s, %v there", remote, ok)
	}
	if remote, ok := m.ToRemote(netip.MustParseAddr("10.200.3.4")); ok {
		t.Errorf("10.200.3.4, which is a pod of ours, is %s there", remote)
	}
}

func TestInvalidMap(t *testing.T) {
	for name, tc := range map[string]struct {
		there, here []string
		want        string
	}{
		"one less here":       {[]string{"10.0.0.0/16", "10.1.0.0/16"}, []string{"10.0.0.0/16"}, "2 remote prefixes, but 1 local ones"},
		"another length":      {[]string{"10.0.0.0/16"}, []string{"10.0.0.0/17"}, "remote prefix 10.0.0.0/16 and local prefix 10.0.0.0/17 differ in length"},
		"another family":      {[]string{"10.0.0.0/16"}, []string{"fd00::/16"}, "remote prefix 10.0.0.0/16 and local prefix fd00::/16 differ in length"},
		"overlapping there":   {[]string{"10.0.0.0/16", "10.0.1.0/24"}, []string{"10.0.0.0/16", "10.1.1.0/24"}, "remote prefixes 10.0.0.0/16 and 10.0.1.0/24 overlap"},
		"overlapping here":    {[]string{"10.0.0.0/16", "10.1.0.0/16"}, []string{"10.5.0.0/16", "10.5.7.7/16"}, "local prefixes 10.5.0.0/16 and 10.5.0.0/16 overlap"},
		"host bits are meant": {[]string{"10.0.3.4/16", "10.0.5.6/16"}, []string{"10.5.0.0/16", "10.6.0.0/16"}, "remote prefixes 10.0.0.0/16 and 10.0.0.0/16 overlap"},
	} {
		if _, err := New(prefixes(tc.there...), prefixes(tc.here...)); err == nil || err.Error() != tc.want {
			t.Errorf("%s: %v, want %s", name, err, tc.want)
		}
	}
}

// Going there and back changes nothing, and no two addresses become one.
func TestMapRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		size := rapid.SampledFrom([]int{4, 16}).Draw(t, "bytes")
		address := func(name string) netip.Addr {
			a, _ := netip.AddrFromSlice(rapid.SliceOfN(rapid.Byte(), size, size).Draw(t, name))
			return a
		}
		remote, here, inside := address("there"), address("here"), address("inside")
		bits := rapid.IntRange(0, remote.BitLen()).Draw(t, "bits")
		from, to := netip.PrefixFrom(remote, bits).Masked(), netip.PrefixFrom(here, bits).Masked()
		m, err := New([]netip.Prefix{from}, []netip.Prefix{to})
		if err != nil {
			t.Fatal(err)
		}
		addr := Move(inside, from)
		moved, ok := m.ToLocal(addr)
		if !ok || !to.Contains(moved) {
			t.Fatalf("%s of %s is %s, %v in %s", addr, from, moved, ok, to)
		}
		if back, ok := m.ToRemote(moved); !ok || back != addr {
			t.Fatalf("%s is %s here and %s, %v there", addr, moved, back, ok)
		}
	})
}

// Whatever networks a peer says it has, and whatever prefixes they have here: either they make no map, or each of their addresses has one
// here that leads back to it, and no address of others has any.
func FuzzMap(f *testing.F) {
	for _, seed := range [][4]string{ // networks there and here, by commas, and an address of each side
		{"10.200.0.0/16", "10.71.0.0/16", "10.200.3.4", "10.71.3.4"},
		{"10.200.0.0/16,10.70.0.0/16", "10.71.0.0/16,10.70.0.0/16", "10.70.0.1", "10.71.255.255"},
		{"172.30.8.0/21,192.0.2.1/32", "192.168.128.0/21,198.51.100.9/32", "172.30.15.255", "198.51.100.9"},
		{"0.0.0.0/0", "0.0.0.0/0", "255.255.255.255", "0.0.0.0"},
		{"fd00:1::/32,10.0.0.0/9", "fd00:9::/32,10.128.0.0/9", "fd00:1::7", "10.255.0.1"},
		{"10.0.0.0/8,10.1.0.0/16", "10.0.0.0/8,11.1.0.0/16", "10.1.0.1", "11.1.0.1"},
		{"::ffff:10.0.0.0/104", "10.0.0.0/8", "::ffff:10.0.0.1", "fe80::1"},
	} {
		f.Add(packed(seed[0]), packed(seed[1]), netip.MustParseAddr(seed[2]).AsSlice(), netip.MustParseAddr(seed[3]).AsSlice())
	}
	f.Fuzz(func(t *testing.T, there, here, of, by []byte) {
		from, to := unpacked(there), unpacked(here)
		m, err := New(from, to)
		if err != nil {
			return
		}
		check := func(addr netip.Addr, own, others []netip.Prefix, forth, back func(netip.Addr) (netip.Addr, bool)) {
			within := slices.IndexFunc(own, func(p netip.Prefix) bool { return p.Contains(addr) })
			moved, ok := forth(addr)
			if ok != (within >= 0) {
				t.Fatalf("%s, of network %d of %v, is %s, %v", addr, within, own, moved, ok)
			}
			if !ok {
				return
			}
			if p := others[within]; !p.Contains(moved) || hostBits(addr, own[within].Bits()) != hostBits(moved, p.Bits()) {
				t.Fatalf("%s of %s is %s in %s", addr, own[within], moved, p)
			}
			if again, ok := back(moved); !ok || again != addr {
				t.Fatalf("%s is %s, which leads back to %s, %v", addr, moved, again, ok)
			}
		}
		for _, text := range [][]byte{of, by} {
			if addr, ok := netip.AddrFromSlice(text); ok {
				check(addr, from, to, m.ToLocal, m.ToRemote)
				check(addr, to, from, m.ToRemote, m.ToLocal)
			}
		}
		for i := range from { // ends are where bits go wrong
			for _, p := range []netip.Prefix{from[i], to[i]} {
				for _, addr := range []netip.Addr{p.Masked().Addr(), last(p)} {
					check(addr, from, to, m.ToLocal, m.ToRemote)
					check(addr, to, from, m.ToRemote, m.ToLocal)
				}
			}
		}
	})
}

// packed writes networks as bytes: their length, their family and the bytes of the address, each.
func packed(cidrs string) (out []byte) {
	for text := range strings.SplitSeq(cidrs, ",") {
		p := netip.MustParsePrefix(text)
		out = append(out, byte(p.Bits()), byte(p.Addr().BitLen()/8))
		out = append(out, p.Addr().AsSlice()...)
	}
	return out
}

// unpacked reads what packed wrote, and of anything else what can be read.
func unpacked(data []byte) (out []netip.Prefix) {
	for len(data) > 2 {
		bits, size := int(data[0]), 4
		if data[1] > 4 {
			size = 16
		}
		if len(data) < 2+size {
			return out
		}
		addr, _ := netip.AddrFromSlice(data[2 : 2+size])
		out = append(out, netip.PrefixFrom(addr, bits%(addr.BitLen()+1)))
		data = data[2+size:]
	}
	return out
}

// last is the last address of a network.
func last(p netip.Prefix) netip.Addr {
	all := slices.Repeat([]byte{0xff}, p.Addr().BitLen()/8)
	addr, _ := netip.AddrFromSlice(all)
	return Move(addr, p.Masked())
}

// hostBits are those behind the first ones of an address, as a number.
func hostBits(addr netip.Addr, network int) string {
	n := new(big.Int).SetBytes(addr.AsSlice())
	return n.Mod(n, new(big.Int).Lsh(big.NewInt(1), uint(addr.BitLen()-network))).String()
}
