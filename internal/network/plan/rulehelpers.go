// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"net/netip"
	"slices"

	"liqo.io/liqo/internal/datapath"
)

// rule is an nftables rule.
type rule = []datapath.Statement

// Statements of rules.

func lookupIn(set string, fields ...datapath.Field) datapath.Lookup {
	return datapath.Lookup{Fields: fields, Set: set}
}

func notIn(set string, field datapath.Field) datapath.Lookup {
	return datapath.Lookup{Fields: []datapath.Field{field}, Not: true, Set: set}
}

func isWithin(field datapath.Field, p netip.Prefix) datapath.Cmp {
	return datapath.Cmp{Field: field, Values: []datapath.Value{datapath.Prefix(p)}}
}

func fromDevice(device string) datapath.Word {
	return datapath.Word{Field: datapath.InputDevice, Word: device}
}

func notFrom(device string) datapath.Word {
	return datapath.Word{Field: datapath.InputDevice, Not: true, Word: device}
}

func toDevice(device string) datapath.Word {
	return datapath.Word{Field: datapath.OutputDevice, Word: device}
}

func isProtocol(n uint8) datapath.Cmp {
	return datapath.Cmp{Field: datapath.L4Protocol, Values: []datapath.Value{datapath.ProtocolValue(n)}}
}

func toPort(n uint16) datapath.Cmp {
	return datapath.Cmp{Field: datapath.DestinationPort, Values: []datapath.Value{datapath.Port(n)}}
}

func goTo(chain string) datapath.Verdict { return datapath.Verdict{Kind: datapath.GoTo, Chain: chain} }

func jumpTo(chain string) datapath.Verdict {
	return datapath.Verdict{Kind: datapath.Jump, Chain: chain}
}

func setMapped(field datapath.Field, by string) datapath.SetMapped {
	return datapath.SetMapped{Field: field, Map: by}
}

func setPrefix(field datapath.Field, p netip.Prefix) datapath.SetPrefix {
	return datapath.SetPrefix{Field: field, Prefix: p}
}

var (
	accept    = datapath.Verdict{Kind: datapath.Accept}
	returning = datapath.Verdict{Kind: datapath.Return}
)

// appendStatements returns a new rule of both lists.
func appendStatements(first rule, then ...datapath.Statement) rule {
	return append(slices.Clone(first), then...)
}

// dropCounted counts and drops the matching packets, or without a match all remaining packets.
func dropCounted(counter string, match ...datapath.Statement) rule {
	return appendStatements(match, datapath.Counter{Name: counter}, datapath.Verdict{Kind: datapath.Drop})
}

// icmpErrors matches ICMP errors that quote a packet; icmpEcho matches echoes too.
func icmpErrors(f datapath.Family) rule {
	return matchICMP(f, []uint32{3, 11, 12}, []uint32{1, 2, 3, 4})
}

func icmpEcho(f datapath.Family) rule {
	return matchICMP(f, []uint32{0, 3, 8, 11, 12}, []uint32{1, 2, 3, 4, 128, 129})
}

func matchICMP(f datapath.Family, v4, v6 []uint32) rule {
	if f == datapath.IPv4 {
		return rule{isProtocol(datapath.ICMP), datapath.Number{Field: datapath.ICMPType, Numbers: v4}}
	}
	return rule{isProtocol(datapath.ICMPv6), datapath.Number{Field: datapath.ICMPType, Numbers: v6}}
}

// newBaseChain returns a chain with a hook.
func newBaseChain(name string, t datapath.ChainType, hook datapath.Hook, priority int, rules ...rule) datapath.Chain {
	return datapath.Chain{Name: name, Type: t, Hook: hook, Priority: priority, Rules: rules}
}

func newChain(name string, rules ...rule) datapath.Chain {
	return datapath.Chain{Name: name, Rules: rules}
}

// Sets of addresses of the family f.

func newPrefixSet(name string, f datapath.Family, of []netip.Prefix) datapath.Set {
	s := datapath.Set{Name: name, Key: []datapath.Type{datapath.TypeAddress}}
	for _, p := range prefixSet(ofFamily(of, f)) {
		s.Elements = append(s.Elements, datapath.Element{Key: []datapath.Value{datapath.Prefix(p)}})
	}
	return s
}

// translationMap returns a map of addresses to addresses.
func translationMap(name string, of []TranslatedIP, from, to func(TranslatedIP) netip.Addr) datapath.Set {
	address := []datapath.Type{datapath.TypeAddress}
	s := datapath.Set{Name: name, Key: address, Value: address}
	for _, a := range of {
		s.Elements = append(s.Elements, datapath.Element{Key: []datapath.Value{datapath.Addr(from(a))}, Value: []datapath.Value{datapath.Addr(to(a))}})
	}
	return s
}

func aliasOf(a TranslatedIP) netip.Addr { return a.Alias }

func addressOf(a TranslatedIP) netip.Addr { return a.Address }

// addressesOf returns the addresses selected by side as prefixes.
func addressesOf(of []TranslatedIP, side func(TranslatedIP) netip.Addr) []netip.Prefix {
	var out []netip.Prefix
	for _, a := range of {
		out = append(out, hostPrefix(side(a)))
	}
	return out
}

// sortTable sorts a table, declares the counters used by its rules, and removes unreachable chains and unused sets.
func sortTable(t *datapath.Table) {
	led, requested := map[string]bool{}, map[string]bool{}
	var follow func(datapath.Chain)
	follow = func(c datapath.Chain) {
		led[c.Name] = true
		for _, r := range c.Rules {
			for _, s := range r {
				switch s := s.(type) {
				case datapath.Counter:
					if !slices.Contains(t.Counters, s.Name) {
						t.Counters = append(t.Counters, s.Name)
					}
				case datapath.Lookup:
					requested[s.Set] = true
				case datapath.SetMapped:
					requested[s.Map] = true
				case datapath.TranslateDestination:
					requested[s.Map] = true
				case datapath.Verdict:
					if i := slices.IndexFunc(t.Chains, func(o datapath.Chain) bool { return o.Name == s.Chain }); i >= 0 && !led[s.Chain] {
						follow(t.Chains[i])
					}
				}
			}
		}
	}
	for _, c := range t.Chains {
		if c.Hook != "" {
			follow(c)
		}
	}
	t.Chains = slices.DeleteFunc(t.Chains, func(c datapath.Chain) bool { return !led[c.Name] })
	t.Sets = slices.DeleteFunc(t.Sets, func(s datapath.Set) bool { return !requested[s.Name] })
}
