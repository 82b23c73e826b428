// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"liqo.io/liqo/internal/datapath"
)

// everyStatement is a table in which each statement and each field is used.
func everyStatement(p sample) datapath.Table {
	type (
		rule  = []datapath.Statement
		types = []datapath.Type
		vals  = []datapath.Value
	)
	icmp := []uint32{3, 11, 12}
	is := func(f datapath.Field, not bool, v ...datapath.Value) datapath.Cmp {
		return datapath.Cmp{Field: f, Not: not, Values: v}
	}
	tcp := is(datapath.L4Protocol, false, datapath.ProtocolValue(datapath.TCP))
	between := datapath.Value{Type: datapath.TypeAddress, Low: string(p.gateway.AsSlice()), High: string(p.gateway.Next().Next().AsSlice())}
	single := netip.PrefixFrom(p.own, p.own.BitLen())
	return datapath.Table{
		Family: p.family, Name: datapath.TableName, Counters: []string{"seen"},
		Sets: []datapath.Set{
			{Name: "aliases", Key: types{datapath.TypeAddress}, Value: types{datapath.TypeAddress}, Elements: []datapath.Element{
				{Key: vals{datapath.Addr(p.alias)}, Value: vals{datapath.Addr(p.target)}},
			}},
			{Name: "peers", Key: types{datapath.TypeAddress}, Elements: []datapath.Element{{Key: vals{datapath.Prefix(p.peer)}}, {Key: vals{datapath.Addr(p.own)}}}},
			{Name: "ranges", Key: types{datapath.TypeAddress}, Value: types{datapath.TypeAddress}, Elements: []datapath.Element{
				{Key: vals{between}, Value: vals{datapath.Addr(p.target)}},
				{Key: vals{datapath.Prefix(p.peer)}, Value: vals{datapath.Addr(p.alias)}},
			}},
			{Name: "services", Key: types{datapath.TypeAddress, datapath.TypeProtocol, datapath.TypePort}, Value: types{datapath.TypeAddress, datapath.TypePort}, Elements: []datapath.Element{
				{Key: vals{datapath.Addr(p.alias), datapath.ProtocolValue(datapath.TCP), datapath.Port(443)}, Value: vals{datapath.Addr(p.target), datapath.Port(6443)}},
			}},
			{Name: "speaks_other", Key: types{datapath.TypeAddress, datapath.TypeOtherAddress}, Elements: []datapath.Element{
				{Key: vals{datapath.Addr(p.gateway), datapath.OtherPrefix(samples[otherFamily(p.family).String()].peer)}},
			}},
			{Name: "speaks", Key: types{datapath.TypeAddress, datapath.TypeAddress}, Elements: []datapath.Element{
				{Key: vals{datapath.Addr(p.gateway), datapath.Prefix(p.peer)}}, {Key: vals{datapath.Addr(p.own), datapath.Prefix(p.pods)}},
			}},
		},
		Chains: []datapath.Chain{
			{Name: "destination", Type: datapath.NAT, Hook: datapath.Prerouting, Priority: -101, Policy: datapath.Accept, Rules: []rule{
				{datapath.TranslateDestination{Map: "aliases", Key: []datapath.Field{datapath.Destination}}},
				{tcp, datapath.TranslateDestination{Map: "services", Key: []datapath.Field{datapath.Destination, datapath.L4Protocol, datapath.DestinationPort}}},
				{is(datapath.Destination, false, datapath.Addr(p.alias)), datapath.TranslateDestination{To: single}},
				{is(datapath.Destination, false, datapath.Prefix(p.peer)), datapath.TranslateDestination{To: p.pods}},
			}},
			{Name: "forward", Type: datapath.Filter, Hook: datapath.Forward, Policy: datapath.Drop, Rules: []rule{
				{datapath.SYN{}, datapath.ClampMSS{}},
				{datapath.SYN{}, datapath.ClampMSS{Size: 1200}},
				{datapath.Word{Field: datapath.FlowState, Word: datapath.Invalid}, datapath.Verdict{Kind: datapath.Drop}},
				{datapath.Word{Field: datapath.FlowState, Word: datapath.Established}, datapath.Verdict{Kind: datapath.Accept}},
				{datapath.Word{Field: datapath.FlowState, Not: true, Word: datapath.New}, datapath.Word{Field: datapath.FlowState, Word: datapath.Related}, datapath.Verdict{Kind: datapath.Return}},
				{datapath.Word{Field: datapath.FlowStatus, Word: datapath.Translated}, datapath.AnonymousCounter{}, datapath.Reject{}},
			}},
			{Name: "raw", Type: datapath.Filter, Hook: datapath.Prerouting, Priority: -450, Policy: datapath.Accept, Rules: []rule{
				{datapath.Lookup{Fields: []datapath.Field{datapath.Source, datapath.InnerSource}, Set: "speaks"}, datapath.Notrack{}},
				{datapath.Lookup{Fields: []datapath.Field{datapath.Source, datapath.OtherInnerSource}, Set: "speaks_other"}, datapath.Notrack{}},
				{datapath.Lookup{Fields: []datapath.Field{datapath.Source}, Not: true, Set: "peers"}, datapath.Counter{Name: "seen"}, datapath.Verdict{Kind: datapath.Jump, Chain: "rewrite"}},
				{datapath.Word{Field: datapath.InputDevice, Not: true, Word: "lo"}, datapath.Word{Field: datapath.OutputDevice, Word: "lo"}, datapath.Verdict{Kind: datapath.GoTo, Chain: "rewrite"}},
				{datapath.Number{Field: datapath.ICMPType, Numbers: icmp}, datapath.Verdict{Kind: datapath.Jump, Chain: "rewrite"}},
				{datapath.Number{Field: datapath.ICMPType, Not: true, Numbers: icmp[:1]}, datapath.Number{Field: datapath.Mark, Numbers: []uint32{7, 8}}, datapath.Number{Field: datapath.FlowMark, Numbers: []uint32{9}}},
				{datapath.SetNumber{Field: datapath.Mark, Number: 0}, datapath.SetNumber{Field: datapath.FlowMark, Number: 5}},
				{datapath.Copy{To: datapath.Mark, From: datapath.FlowMark}, datapath.Copy{To: datapath.FlowMark, From: datapath.Mark}},
				{tcp, is(datapath.SourcePort, false, datapath.Ports(1000, 2000)), is(datapath.DestinationPort, true, datapath.Port(80), datapath.Ports(90, 99))},
				{is(datapath.Source, true, between), is(datapath.Destination, false, datapath.Addr(p.own), datapath.Prefix(p.peer))},
				{is(datapath.OriginalSource, false, datapath.Prefix(p.peer)), is(datapath.OriginalDestination, true, datapath.Addr(p.own))},
				{datapath.Word{Field: datapath.DestinationScope, Not: true, Word: datapath.Local}, datapath.Word{Field: datapath.SourceScope, Word: datapath.Local}},
			}},
			{Name: "rewrite", Rules: []rule{
				{datapath.SetMapped{Field: datapath.Destination, Map: "aliases"}},
				{datapath.SetMapped{Field: datapath.QuotedSource, Map: "ranges"}},
				{is(datapath.Source, false, datapath.Prefix(p.pods)), datapath.SetPrefix{Field: datapath.Source, Prefix: p.peer}},
				{is(datapath.QuotedDestination, false, datapath.Prefix(p.peer)), datapath.SetPrefix{Field: datapath.QuotedDestination, Prefix: p.pods}},
				{datapath.SetPrefix{Field: datapath.Source, Prefix: single}},
			}},
			{Name: "source", Type: datapath.NAT, Hook: datapath.Postrouting, Priority: 99, Policy: datapath.Accept, Rules: []rule{
				{datapath.TranslateSource{Identity: true}},
				{datapath.TranslateSource{To: single}},
				{datapath.TranslateSource{To: p.peer}},
				{datapath.Masquerade{}},
			}},
		},
	}
}

func TestStatementsAccepted(t *testing.T) {
	eachFamily(t, func(t *testing.T, p sample) {
		k := newTestNamespace(t).open(t)
		want := datapath.State{Tables: []datapath.Table{everyStatement(p)}}
		want.Sort()
		k.mustApply(t, want)
		if diff := cmp.Diff(want.String(), k.mustObserve(t)); diff != "" {
			t.Error(diff)
		}
		if c := k.mustApply(t, want); len(c.Writes) > 0 {
			t.Errorf("a second time: %q", c.Writes)
		}
	})
}

func TestInvalidRules(t *testing.T) {
	p := samples["ip"]
	for want, s := range map[string]datapath.Statement{
		"the table has no set x":                                  datapath.Lookup{Fields: []datapath.Field{datapath.Source}, Set: "x"},
		"80 is not a value of its field":                          datapath.Cmp{Field: datapath.Source, Values: []datapath.Value{datapath.Port(80)}},
		"there is no value to compare with":                       datapath.Cmp{Field: datapath.Source},
		"there is no number to compare with":                      datapath.Number{Field: datapath.Mark},
		"number 256 is out of range for its field":                datapath.Number{Field: datapath.ICMPType, Numbers: []uint32{256}},
		`unknown value "new" of its field`:                        datapath.Word{Field: datapath.SourceScope, Word: datapath.New},
		`invalid device name "a-name-that-is-too-long"`:           datapath.Word{Field: datapath.InputDevice, Word: "a-name-that-is-too-long"},
		"field 1 is not a mark":                                   datapath.SetNumber{Field: datapath.Source},
		"field 99 cannot be read":                                 datapath.Copy{To: datapath.Mark, From: 99},
		"field 6 cannot be written":                               datapath.SetMapped{Field: datapath.SourcePort, Map: "aliases"},
		"no map peers to addresses":                               datapath.SetMapped{Field: datapath.Source, Map: "peers"},
		"fd00::/64 is not of the table's family":                  datapath.SetPrefix{Field: datapath.Source, Prefix: parsePrefix("fd00::/64")},
		"fd00::1/128 is not of the table's family":                datapath.TranslateSource{To: parsePrefix("fd00::1/128")},
		`unknown verdict "jump"`:                                  datapath.Verdict{Kind: datapath.Jump},
		"no map peers to addresses, or to addresses and":          datapath.TranslateDestination{Map: "peers", Key: []datapath.Field{datapath.Source}},
		"type datapath.Observed cannot be encoded for the kernel": datapath.Observed{Text: "accept"},
	} {
		if _, err := compileRule(everyStatement(p), []datapath.Statement{s}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%T: %v, want %s", s, err, want)
		}
	}
}

func TestRuleUserData(t *testing.T) {
	text := strings.Repeat("x", 300)
	m := encodeUserData(strings.Repeat("h", hashSize), text)
	if got := decodeUserData(m); len(m) > 256 || got.hash != strings.Repeat("h", hashSize) || !strings.HasPrefix(text, got.text) || len(got.text) < 230 {
		t.Errorf("%d bytes: %q", len(m), got)
	}
	for _, broken := range [][]byte{nil, {memoryHash}, {memoryHash, 200, 'x'}, {0, 0, 0}} {
		decodeUserData(broken) // what others wrote must not hurt
	}
}
