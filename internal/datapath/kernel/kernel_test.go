// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"liqo.io/liqo/internal/datapath"
	"liqo.io/liqo/internal/names"
)

var (
	addr        = netip.MustParseAddr
	parsePrefix = netip.MustParsePrefix
)

// sample has addresses of one family for a node's state.
type sample struct {
	family                             datapath.Family
	own, gateway, outer, alias, target netip.Addr
	peer, pods, services               netip.Prefix
}

var samples = map[string]sample{
	"ip": {
		datapath.IPv4, addr("10.70.0.12"), addr("10.200.1.9"), addr("10.200.1.9"), addr("10.70.0.21"), addr("172.29.1.100"),
		parsePrefix("10.71.0.0/16"), parsePrefix("10.200.0.0/16"), parsePrefix("10.96.0.0/12"),
	},
	"ip6": {
		datapath.IPv6, addr("fd00:70::12"), addr("fd00:200::9"), addr("fd00:200::9"), addr("fd00:70::21"), addr("fd00:29::100"),
		parsePrefix("fd00:71::/64"), parsePrefix("fd00:200::/64"), parsePrefix("fd00:96::/108"),
	},
}

// node is what a node with one gateway holds.
func (p sample) node() datapath.State {
	host := func(a netip.Addr) netip.Prefix { return netip.PrefixFrom(a, a.BitLen()) }
	is := func(f datapath.Field, v ...datapath.Value) datapath.Cmp { return datapath.Cmp{Field: f, Values: v} }
	outer := []datapath.Statement{is(datapath.L4Protocol, datapath.ProtocolValue(datapath.UDP)), is(datapath.DestinationPort, datapath.Port(6091))}
	drop := []datapath.Statement{datapath.Counter{Name: "dropped"}, datapath.Verdict{Kind: datapath.Drop}}
	scope := datapath.ScopeGlobal
	if p.family == datapath.IPv4 {
		scope = datapath.ScopeLink
	}
	s := datapath.State{
		Links: []datapath.Link{
			{Name: names.FabricDevice, VXLAN: &datapath.VXLAN{ID: 1, Port: 6091, MAC: datapath.MAC(p.own)}, MTU: 1340},
			{Name: names.ProbeDevice, Veth: &datapath.Veth{Peer: names.EchoDevice, MAC: [6]byte{2, 1}}, MTU: 65535},
			{Name: names.EchoDevice, Veth: &datapath.Veth{Peer: names.ProbeDevice, MAC: [6]byte{2, 2}}, MTU: 65535},
		},
		Addresses: []datapath.Address{{Device: "lo", Prefix: host(p.own)}},
		Neighbours: []datapath.Neighbour{
			{Device: names.FabricDevice, Next: p.gateway, MAC: datapath.MAC(p.gateway), Outer: p.outer},
			{Device: names.ProbeDevice, Next: p.target, MAC: [6]byte{2, 3}},
		},
		Routes: []datapath.Route{
			{Table: 6091, To: p.peer, Unreachable: true, Metric: datapath.UnreachableMetric},
			{Table: 6091, To: p.peer, Via: p.gateway, Device: names.FabricDevice, OnLink: true, Source: p.own, MTU: 1340},
			{Table: 6092, To: host(p.target), Device: names.ProbeDevice, Scope: scope},
		},
		Rules: []datapath.Rule{
			{Priority: 104, Family: p.family, From: host(p.gateway), GoTo: 106},
			{Priority: 105, Family: p.family, From: host(p.peer.Addr()), To: host(p.target), Table: 6092},
			{Priority: 105, Family: p.family, Table: 6091},
			{Priority: 106, Family: p.family, Nop: true},
			{Priority: 110, Family: p.family, From: p.peer, Unreachable: true},
		},
		Tables: []datapath.Table{{
			Family: p.family, Name: datapath.TableName, Counters: []string{"dropped"},
			Sets: []datapath.Set{
				{Name: "alias", Key: []datapath.Type{datapath.TypeAddress}, Value: []datapath.Type{datapath.TypeAddress}, Elements: []datapath.Element{
					{Key: []datapath.Value{datapath.Addr(p.alias)}, Value: []datapath.Value{datapath.Addr(p.target)}},
				}},
				{Name: "direct", Key: []datapath.Type{datapath.TypeAddress}, Elements: []datapath.Element{
					{Key: []datapath.Value{datapath.Prefix(p.peer)}}, {Key: []datapath.Value{datapath.Prefix(p.services)}},
				}},
				{Name: "speaks", Key: []datapath.Type{datapath.TypeAddress, datapath.TypeAddress}, Elements: []datapath.Element{
					{Key: []datapath.Value{datapath.Addr(p.gateway), datapath.Prefix(p.peer)}},
				}},
			},
			Chains: []datapath.Chain{
				{Name: "alias_in", Type: datapath.NAT, Hook: datapath.Prerouting, Priority: -101, Policy: datapath.Accept, Rules: [][]datapath.Statement{
					{datapath.TranslateDestination{Map: "alias", Key: []datapath.Field{datapath.Destination}}},
				}},
				{Name: "outer", Type: datapath.Filter, Hook: datapath.Prerouting, Priority: -300, Policy: datapath.Accept, Rules: [][]datapath.Statement{
					append(slices.Clone(outer), datapath.Word{Field: datapath.DestinationScope, Word: datapath.Local}, datapath.Verdict{Kind: datapath.GoTo, Chain: "outer_in"}),
					append(slices.Clone(outer), datapath.Notrack{}),
				}},
				{Name: "outer_in", Rules: [][]datapath.Statement{
					{datapath.Lookup{Fields: []datapath.Field{datapath.Source, datapath.InnerSource}, Set: "speaks"}, datapath.Notrack{}, datapath.Verdict{Kind: datapath.Accept}},
					drop,
				}},
				{Name: "post", Type: datapath.NAT, Hook: datapath.Postrouting, Priority: 99, Policy: datapath.Accept, Rules: [][]datapath.Statement{
					{
						datapath.Word{Field: datapath.OutputDevice, Word: names.FabricDevice}, datapath.Word{Field: datapath.SourceScope, Not: true, Word: datapath.Local},
						is(datapath.Source, datapath.Prefix(p.pods)), datapath.Lookup{Fields: []datapath.Field{datapath.OriginalDestination}, Set: "direct"},
						datapath.TranslateSource{Identity: true},
					},
					{datapath.Word{Field: datapath.OutputDevice, Word: names.FabricDevice}, datapath.TranslateSource{To: host(p.own)}},
				}},
			},
		}},
	}
	s.Sort()
	return s
}

func eachFamily(t *testing.T, f func(t *testing.T, p sample)) {
	for name, p := range samples {
		t.Run(name, func(t *testing.T) { f(t, p) })
	}
}

func TestApplyObserve(t *testing.T) {
	eachFamily(t, func(t *testing.T, p sample) {
		k := newTestNamespace(t).open(t)
		want := p.node()
		k.mustApply(t, want)
		if diff := cmp.Diff(want.String(), k.mustObserve(t)); diff != "" {
			t.Error(diff)
		}
		if c := k.mustApply(t, want); len(c.Writes)+len(c.Waiting) > 0 {
			t.Errorf("a second time: %q", c)
		}
	})
}

func TestApplyCapabilities(t *testing.T) {
	s := newTestNamespace(t)
	s.inside(t, func() error {
		header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3} // of this thread
		rights := [2]unix.CapUserData{{Effective: 1 << unix.CAP_NET_ADMIN, Permitted: 1 << unix.CAP_NET_ADMIN}}
		if err := unix.Capset(&header, &rights[0]); err != nil {
			return fmt.Errorf("dropping rights: %w", err)
		}
		k, err := Open(Options{})
		if err != nil {
			return err
		}
		defer k.Close()
		want := samples["ip"].node()
		_, applied := k.Apply(t.Context(), want)
		_, counted := k.Counted()
		_, forgotten := k.Forget(parsePrefix("10.0.0.0/8"))
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		_, watched := k.Watch(ctx)
		got, observed := k.Observe()
		if diff := cmp.Diff(want.String(), got.String()); diff != "" {
			return errors.New(diff)
		}
		return errors.Join(applied, counted, forgotten, watched, observed)
	})
}

func TestMissingNetworkNamespace(t *testing.T) {
	if _, err := Open(Options{Namespace: "/run/netns/lqk-none"}); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("error %v", err)
	}
}
