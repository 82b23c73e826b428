// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"net/netip"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestStateText(t *testing.T) {
	addr, prefix := netip.MustParseAddr, netip.MustParsePrefix
	gateway := addr("10.200.1.9")
	s := State{
		Links:      []Link{{Name: "liqo.fabric", VXLAN: &VXLAN{ID: 1, Port: 6091, MAC: MAC(addr("10.70.0.12"))}, MTU: 1340}},
		Addresses:  []Address{{Device: "lo", Prefix: prefix("10.70.0.12/32")}},
		Neighbours: []Neighbour{{Device: "liqo.fabric", Next: gateway, MAC: MAC(gateway), Outer: gateway}},
		Routes: []Route{
			{Table: 6091, To: prefix("10.71.0.0/16"), Unreachable: true, Metric: UnreachableMetric},
			{Table: 6091, To: prefix("10.71.0.0/16"), Via: gateway, Device: "liqo.fabric", OnLink: true, Source: addr("10.70.0.12"), MTU: 1340},
		},
		Rules: []Rule{{Priority: 110, Family: IPv4, From: prefix("10.71.0.0/16"), Unreachable: true}, {Priority: 105, Family: IPv4, Table: 6091}},
		Tables: []Table{{
			Family: IPv4, Name: TableName, Counters: []string{"dropped"},
			Sets: []Set{
				{Name: "speaks", Key: []Type{TypeAddress, TypeAddress}, Elements: []Element{{Key: []Value{Addr(gateway), Prefix(prefix("10.71.0.0/16"))}}}},
				{Name: "alias", Key: []Type{TypeAddress}, Value: []Type{TypeAddress}, Elements: []Element{{Key: []Value{Addr(addr("10.70.0.21"))}, Value: []Value{Addr(addr("172.29.1.100"))}}}},
			},
			Chains: []Chain{
				{Name: "outer", Type: Filter, Hook: Prerouting, Priority: -300, Rules: [][]Statement{{
					Cmp{Field: L4Protocol, Values: []Value{ProtocolValue(UDP)}}, Cmp{Field: DestinationPort, Values: []Value{Port(6091)}},
					Word{Field: DestinationScope, Word: Local}, Verdict{GoTo, "outer_in"},
				}}},
				{Name: "outer_in", Rules: [][]Statement{
					{Lookup{Fields: []Field{Source, InnerSource}, Set: "speaks"}, Notrack{}, Verdict{Kind: Accept}},
					{Counter{"dropped"}, Verdict{Kind: Drop}},
				}},
			},
		}},
	}
	s.Sort()
	want := `link liqo.fabric address 02:6c:0a:46:00:0c vxlan id 1 dstport 6091 nolearning mtu 1340
addr 10.70.0.12/32 dev lo
neigh 10.200.1.9 lladdr 02:6c:0a:c8:01:09 dev liqo.fabric dst 10.200.1.9
route 10.71.0.0/16 via 10.200.1.9 dev liqo.fabric onlink src 10.70.0.12 mtu 1340 table 6091
route unreachable 10.71.0.0/16 metric 4278198272 table 6091
rule pref 105 lookup 6091
rule pref 110 from 10.71.0.0/16 unreachable
table ip liqo {
	counter dropped {}
	map alias { type ipv4_addr : ipv4_addr; elements = { 10.70.0.21 : 172.29.1.100 } }
	set speaks { type ipv4_addr . ipv4_addr; flags interval; elements = { 10.200.1.9 . 10.71.0.0/16 } }
	chain outer {
		type filter hook prerouting priority -300; policy accept;
		meta l4proto udp th dport 6091 fib daddr type local goto outer_in
	}
	chain outer_in {
		ip saddr . inner ip saddr @speaks notrack accept
		counter name dropped drop
	}
}
`
	if diff := cmp.Diff(want, s.String()); diff != "" {
		t.Error(diff)
	}
}

func TestMixedFamilies(t *testing.T) {
	table := Table{
		Family: IPv4, Name: TableName,
		Sets: []Set{{Name: "speaks", Key: []Type{TypeAddress, TypeOtherAddress}, Elements: []Element{
			{Key: []Value{Addr(netip.MustParseAddr("10.200.1.9")), OtherPrefix(netip.MustParsePrefix("fd00:71::/56"))}},
		}}},
		Chains: []Chain{{Name: "outer_in", Rules: [][]Statement{{Lookup{Fields: []Field{Source, OtherInnerSource}, Set: "speaks"}, Verdict{Kind: Accept}}}}},
	}
	want := `table ip liqo {
	set speaks { type ipv4_addr . ipv6_addr; flags interval; elements = { 10.200.1.9 . fd00:71::/56 } }
	chain outer_in {
		ip saddr . inner ip6 saddr @speaks accept
	}
}`
	if diff := cmp.Diff(want, table.String()); diff != "" {
		t.Error(diff)
	}
}

func TestRangeValues(t *testing.T) {
	for _, tc := range []struct {
		v    Value
		want string
	}{
		{Prefix(netip.MustParsePrefix("10.1.2.3/12")), "10.0.0.0/12"},
		{Prefix(netip.MustParsePrefix("10.1.2.3/32")), "10.1.2.3"},
		{Prefix(netip.MustParsePrefix("0.0.0.0/0")), "0.0.0.0/0"},
		{Prefix(netip.MustParsePrefix("fd00::/61")), "fd00::/61"},
		{Value{TypeAddress, string(netip.MustParseAddr("10.0.0.1").AsSlice()), string(netip.MustParseAddr("10.0.0.6").AsSlice())}, "10.0.0.1-10.0.0.6"},
		{Ports(80, 90), "80-90"},
		{Port(443), "443"},
	} {
		if got := tc.v.String(); got != tc.want {
			t.Errorf("%s, want %s", got, tc.want)
		}
	}
}
