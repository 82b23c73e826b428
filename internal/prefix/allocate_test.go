// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package prefix

import (
	"fmt"
	"net/netip"
	"slices"
	"testing"

	_ "liqo.io/liqo/internal/testkit/repeatable"
	"pgregory.net/rapid"
)

var usual = prefixesOf("10.0.0.0/8", "192.168.0.0/16", "172.16.0.0/12")

func prefixesOf(of ...string) (out []netip.Prefix) {
	for _, s := range of {
		out = append(out, netip.MustParsePrefix(s))
	}
	return out
}

func claims(shared bool, of ...string) (out []Claim) {
	for _, p := range prefixesOf(of...) {
		out = append(out, Claim{Prefix: p, Shared: shared, Of: "Network " + p.String()})
	}
	return out
}

func TestGrant(t *testing.T) {
	local := slices.Concat(claims(true, "10.200.0.0/16", "10.100.0.0/16"), claims(false, "10.70.0.0/16"))
	for _, tc := range []struct {
		name  string
		pools []netip.Prefix
		taken []Claim
		want  Want
		get   string
		err   string
	}{
		{name: "what is free", taken: local, want: Want{Prefix: netip.MustParsePrefix("10.50.0.0/16")}, get: "10.50.0.0/16"},
		{name: "the preferred one", taken: local, want: Want{Prefix: netip.MustParsePrefix("10.50.0.0/16"), Preferred: netip.MustParsePrefix("10.68.0.0/16")}, get: "10.68.0.0/16"},
		{name: "the preferred one is taken", taken: local, want: Want{Prefix: netip.MustParsePrefix("10.50.0.0/16"), Preferred: netip.MustParsePrefix("10.70.0.0/16")}, get: "10.50.0.0/16"},
		{name: "the preferred one has another length", taken: local, want: Want{Prefix: netip.MustParsePrefix("10.50.0.0/16"), Preferred: netip.MustParsePrefix("10.68.0.0/17")}, get: "10.50.0.0/16"},
		{name: "the preferred one is in no pool", taken: local, want: Want{Prefix: netip.MustParsePrefix("10.50.0.0/16"), Preferred: netip.MustParsePrefix("100.64.0.0/16")}, get: "10.50.0.0/16"},
		{name: "host bits do not matter", taken: local, want: Want{Prefix: netip.MustParsePrefix("10.50.1.2/16")}, get: "10.50.0.0/16"},
		{name: "another for what is taken", taken: local, want: Want{Prefix: netip.MustParsePrefix("10.70.0.0/16")}, get: "10.71.0.0/16"},
		{name: "another for what is shared", taken: local, want: Want{Prefix: netip.MustParsePrefix("10.200.0.0/16"), Shared: true}, get: "10.71.0.0/16"},
		{name: "another for what is in no pool", taken: local, want: Want{Prefix: netip.MustParsePrefix("100.64.0.0/24")}, get: "10.71.0.0/24"},
		{name: "another for one that holds a taken one", taken: local, want: Want{Prefix: netip.MustParsePrefix("10.64.0.0/10")}, get: "10.0.0.0/10"},
		{
			name: "fixed and taken", taken: local, want: Want{Prefix: netip.MustParsePrefix("10.70.3.0/24"), Fixed: true, Shared: true},
			err: "10.70.3.0/24 overlaps 10.70.0.0/16 of Network 10.70.0.0/16",
		},
		{
			name: "fixed and in the way of two", taken: local, want: Want{Prefix: netip.MustParsePrefix("10.0.0.0/9"), Fixed: true},
			err: "10.0.0.0/9 overlaps 10.100.0.0/16 of Network 10.100.0.0/16, 10.70.0.0/16 of Network 10.70.0.0/16",
		},
		{
			name: "fixed and in the way of many", pools: prefixesOf("10.0.0.0/8"),
			taken: claims(true, "10.0.0.1/32", "10.0.0.2/32", "10.0.0.3/32", "10.0.0.4/32", "10.0.0.5/32", "10.0.0.6/32", "10.0.0.7/32"),
			want:  Want{Prefix: netip.MustParsePrefix("10.0.0.0/24"), Fixed: true},
			err: "10.0.0.0/24 overlaps 10.0.0.1/32 of Network 10.0.0.1/32, 10.0.0.2/32 of Network 10.0.0.2/32, 10.0.0.3/32 of Network 10.0.0.3/32, " +
				"10.0.0.4/32 of Network 10.0.0.4/32, 10.0.0.5/32 of Network 10.0.0.5/32, and 2 more",
		},
		{
			name: "not near a node", pools: prefixesOf("10.0.0.0/8"),
			taken: append(claims(false, "10.70.0.0/16"), Claim{Prefix: netip.MustParsePrefix("10.0.3.4/32"), Shared: true, Apart: true}),
			want:  Want{Prefix: netip.MustParsePrefix("10.70.0.0/16")}, get: "10.71.0.0/16",
		},
		{name: "shared beside shared", taken: local, want: Want{Prefix: netip.MustParsePrefix("10.200.4.0/24"), Fixed: true, Shared: true}, get: "10.200.4.0/24"},
		{name: "shared, in no pool", taken: local, want: Want{Prefix: netip.MustParsePrefix("100.64.0.0/10"), Fixed: true, Shared: true}, get: "100.64.0.0/10"},
		{
			name: "fixed, one's own, in no pool", taken: local, want: Want{Prefix: netip.MustParsePrefix("100.64.0.0/10"), Fixed: true},
			err: "100.64.0.0/10 is not in 10.0.0.0/8, 192.168.0.0/16, 172.16.0.0/12",
		},
		{
			name: "nothing is left", pools: prefixesOf("192.168.0.0/24"), taken: claims(false, "192.168.0.0/25", "192.168.0.200/32"),
			want: Want{Prefix: netip.MustParsePrefix("10.0.0.0/25")}, err: "no prefix of length 25 is free in 192.168.0.0/24",
		},
		{name: "what is left beside one address", pools: prefixesOf("192.168.0.0/24"), taken: claims(false, "192.168.0.0/25", "192.168.0.200/32"), want: Want{Prefix: netip.MustParsePrefix("10.0.0.0/26")}, get: "192.168.0.128/26"},
		{name: "larger than every pool", want: Want{Prefix: netip.MustParsePrefix("0.0.0.0/4")}, err: "no pool has prefixes of length 4"},
		{name: "IPv6 without a pool of it", want: Want{Prefix: netip.MustParsePrefix("fd00::/64")}, err: "no pool has prefixes of length 64"},
		{
			name: "IPv6", pools: append(prefixesOf("fd00::/8"), usual...), taken: claims(false, "fd00::/48"),
			want: Want{Prefix: netip.MustParsePrefix("fd00:0:0:7::/64")}, get: "fd00:0:1::/64",
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			pools := tc.pools
			if pools == nil {
				pools = usual
			}
			got, err := Grant(pools, tc.taken, tc.want)
			if message := fmt.Sprint(err); (err != nil || tc.err != "") && message != tc.err {
				t.Errorf("error %q, want %q", message, tc.err)
			}
			if tc.get != "" && got.String() != tc.get {
				t.Errorf("%s, want %s", got, tc.get)
			}
		})
	}
}

// Two clusters with the usual ranges see each other's where users of the original expect them.
func TestRemapDefaultRanges(t *testing.T) {
	taken := slices.Concat(claims(true, "10.200.0.0/16", "10.100.0.0/16"), claims(false, "10.70.0.0/16", "10.80.0.0/16"))
	var got []string
	for _, want := range []string{"10.200.0.0/16", "10.70.0.0/16", "10.200.0.0/16", "10.70.0.0/16"} {
		p, err := Grant(usual, taken, Want{Prefix: netip.MustParsePrefix(want)})
		if err != nil {
			t.Fatal(err)
		}
		taken = append(taken, Claim{Prefix: p})
		got = append(got, p.String())
	}
	if want := []string{"10.71.0.0/16", "10.68.0.0/16", "10.69.0.0/16", "10.64.0.0/16"}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

// Whatever is asked for and given back, nobody gets what another has, and nobody is turned away while there is room.
func TestNoDoubleAllocation(t *testing.T) {
	pools := prefixesOf("10.0.0.0/26", "10.1.0.0/28", "fd00::/122")
	rapid.Check(t, func(t *rapid.T) {
		var taken []Claim
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			if len(taken) > 0 && rapid.IntRange(0, 3).Draw(t, "give back") == 0 {
				i := rapid.IntRange(0, len(taken)-1).Draw(t, "which")
				taken = slices.Delete(taken, i, i+1)
				continue
			}
			want := wanted(t)
			got, err := Grant(pools, taken, want)
			if again, _ := Grant(pools, slices.Clone(taken), want); again != got {
				t.Fatalf("%s, and %s when asked again", got, again)
			}
			if err != nil {
				if !want.Fixed && room(pools, taken, want.Prefix) {
					t.Fatalf("%v, and there is room for %s beside %v", err, want.Prefix, taken)
				}
				continue
			}
			if got.Bits() != want.Prefix.Bits() || got != got.Masked() || want.Fixed && got != want.Prefix.Masked() {
				t.Fatalf("%s for %+v", got, want)
			}
			shared := want.Fixed && want.Shared
			for _, c := range taken {
				if c.Prefix.Overlaps(got) && !(shared && c.Shared) {
					t.Fatalf("%s for %+v, which %+v has", got, want, c)
				}
			}
			taken = append(taken, Claim{Prefix: got, Shared: shared, Of: "somebody"})
		}
	})
}

func wanted(t *rapid.T) Want {
	base := rapid.SampledFrom([]string{"10.0.0.0", "10.0.0.32", "10.1.0.8", "10.9.0.1", "fd00::", "fd00::20"}).Draw(t, "base")
	addr := netip.MustParseAddr(base)
	return Want{
		Prefix: netip.PrefixFrom(addr, addr.BitLen()-rapid.IntRange(0, 6).Draw(t, "host bits")),
		Fixed:  rapid.Bool().Draw(t, "fixed"), Shared: rapid.Bool().Draw(t, "shared"),
	}
}

// room looks at every prefix of that length.
func room(pools []netip.Prefix, taken []Claim, like netip.Prefix) bool {
	for _, pool := range pools {
		if pool.Addr().BitLen() != like.Addr().BitLen() || pool.Bits() > like.Bits() {
			continue
		}
		for addr := pool.Addr(); pool.Contains(addr); addr = addr.Next() {
			p := netip.PrefixFrom(addr, like.Bits())
			if p == p.Masked() && !slices.ContainsFunc(taken, func(c Claim) bool { return c.Prefix.Overlaps(p) }) {
				return true
			}
		}
	}
	return false
}

func TestAddress(t *testing.T) {
	for _, tc := range []struct {
		name, within, last string
		reserved           int
		taken              []string
		want               string
	}{
		{name: "the first", within: "10.70.0.0/16", want: "10.70.0.0"},
		{name: "what is reserved", within: "10.70.0.0/16", reserved: 1, want: "10.70.0.1"},
		{name: "after the last", within: "10.70.0.0/16", last: "10.70.0.9", want: "10.70.0.10"},
		{name: "over what is taken", within: "10.70.0.0/16", last: "10.70.0.9", taken: []string{"10.70.0.10", "10.70.0.11"}, want: "10.70.0.12"},
		{name: "round the end", within: "10.70.0.0/30", reserved: 1, last: "10.70.0.2", taken: []string{"10.70.0.3"}, want: "10.70.0.1"},
		{name: "the last one itself", within: "10.70.0.0/30", reserved: 1, last: "10.70.0.3", want: "10.70.0.1"},
		{name: "a last one that is reserved now", within: "10.70.0.0/30", reserved: 3, last: "10.70.0.0", want: "10.70.0.3"},
		{name: "a last one of elsewhere", within: "10.70.0.0/30", last: "10.71.0.1", want: "10.70.0.0"},
		{name: "full", within: "10.70.0.0/31", taken: []string{"10.70.0.0", "10.70.0.1"}},
		{name: "all reserved", within: "10.70.0.0/31", reserved: 2},
		{name: "many reserved", within: "fd00::/64", reserved: 1 << 31, want: "fd00::8000:0"},
		{name: "reserved beyond the last address", within: "255.255.255.0/24", reserved: 256},
		{name: "carried", within: "10.70.0.0/15", reserved: 65537, want: "10.71.0.1"},
		{name: "one address", within: "10.70.0.7/32", want: "10.70.0.7"},
		{name: "the end of all addresses", within: "255.255.255.254/31", last: "255.255.255.255", taken: []string{"255.255.255.254"}, want: "255.255.255.255"},
		{name: "IPv6", within: "fd00::/64", reserved: 1, last: "fd00::ffff", want: "fd00::1:0"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var last netip.Addr
			if tc.last != "" {
				last = netip.MustParseAddr(tc.last)
			}
			got, ok := Address(netip.MustParsePrefix(tc.within), tc.reserved, last, func(a netip.Addr) bool { return slices.Contains(tc.taken, a.String()) })
			if ok != (tc.want != "") || ok && got.String() != tc.want {
				t.Errorf("%s, %v; want %s", got, ok, tc.want)
			}
		})
	}
}

// Every free address comes once before any comes again.
func TestAddressWraparound(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		within := netip.PrefixFrom(netip.MustParseAddr("10.70.0.0"), rapid.IntRange(27, 32).Draw(t, "bits"))
		size := 1 << (32 - within.Bits())
		reserved := rapid.IntRange(0, size+1).Draw(t, "reserved")
		held := map[netip.Addr]bool{}
		var last netip.Addr
		for range max(size-reserved, 0) {
			addr, ok := Address(within, reserved, last, func(a netip.Addr) bool { return held[a] })
			if !ok || held[addr] || !within.Contains(addr) {
				t.Fatalf("%s, %v with %d of %d held", addr, ok, len(held), size)
			}
			held[addr], last = true, addr
		}
		if addr, ok := Address(within, reserved, last, func(a netip.Addr) bool { return held[a] }); ok {
			t.Fatalf("%s, and there is none", addr)
		}
	})
}

func TestAddressFromEnd(t *testing.T) {
	within := netip.MustParsePrefix("10.0.0.0/29")
	var got []string
	last, taken := netip.Addr{}, map[netip.Addr]bool{netip.MustParseAddr("10.0.0.5"): true}
	for {
		addr, ok := AddressFromTheEnd(within, 2, last, func(a netip.Addr) bool { return taken[a] })
		if !ok {
			break
		}
		got, last = append(got, addr.String()), addr
		taken[addr] = true
	}
	if want := []string{"10.0.0.7", "10.0.0.6", "10.0.0.4", "10.0.0.3", "10.0.0.2"}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	delete(taken, netip.MustParseAddr("10.0.0.6"))
	if addr, ok := AddressFromTheEnd(within, 2, last, func(a netip.Addr) bool { return taken[a] }); !ok || addr.String() != "10.0.0.6" {
		t.Errorf("%s, %v: want the one that was given back", addr, ok)
	}
}
