// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"
	"net/netip"
	"slices"

	"go4.org/netipx"

	"liqo.io/liqo/internal/datapath"
)

// Translations returns, for each prefix, the NAT rules for connections with an address in the prefix: the text of the matching rules in base chains
// of type nat, in order. The conntrack entries to flush follow from the differences between two results. A rule without addresses concerns its whole
// family. Both families are always present, so that unknown rules of an earlier process cause a flush.
func Translations(tables []datapath.Table) map[netip.Prefix]string {
	out := translatedPrefixes{wholeOf(datapath.IPv4): "", wholeOf(datapath.IPv6): ""}
	for _, t := range tables {
		for _, c := range t.Chains {
			if c.Type != datapath.NAT || c.Hook == "" {
				continue
			}
			for _, r := range c.Rules {
				out.addRule(t, r, fmt.Sprintf("%s %d: %s\n", c.Hook, c.Priority, datapath.RuleText(t.Family, r)))
			}
		}
	}
	return out
}

func wholeOf(f datapath.Family) netip.Prefix {
	if f == datapath.IPv4 {
		return netip.PrefixFrom(netip.IPv4Unspecified(), 0)
	}
	return netip.PrefixFrom(netip.IPv6Unspecified(), 0)
}

type translatedPrefixes map[netip.Prefix]string

// addRule adds a rule. All matches of a rule must apply to a connection, so the prefixes of a single match suffice.
func (out translatedPrefixes) addRule(t datapath.Table, r rule, text string) {
	about := map[netip.Prefix]string{wholeOf(t.Family): text}
	for _, s := range r {
		switch s := s.(type) {
		case datapath.Cmp:
			if ofFlow(s.Field) && !s.Not {
				about = map[netip.Prefix]string{}
				for _, v := range s.Values {
					addElement(about, v, text)
				}
			}
		case datapath.Lookup:
			if !ofFlow(s.Fields[0]) {
				continue
			}
			elements := elementsOf(t, s.Set, text)
			if !s.Not {
				about = elements
				continue
			}
			for p, of := range elements { // elements are not part of the rule's text, but adding or removing one changes the NAT
				out[p] += of
			}
		case datapath.TranslateDestination:
			if s.Map != "" && ofFlow(s.Key[0]) {
				about = elementsOf(t, s.Map, text)
			}
		}
	}
	for p, of := range about {
		out[p] += of
	}
}

// ofFlow reports whether the field is an address in a conntrack entry.
func ofFlow(f datapath.Field) bool {
	return slices.Contains([]datapath.Field{datapath.Source, datapath.Destination, datapath.OriginalSource, datapath.OriginalDestination}, f)
}

// elementsOf returns the first addresses of the elements of a set or map, with the values of a map.
func elementsOf(t datapath.Table, set, text string) map[netip.Prefix]string {
	out := map[netip.Prefix]string{}
	for _, s := range t.Sets {
		if s.Name != set {
			continue
		}
		for _, e := range s.Elements {
			addElement(out, e.Key[0], fmt.Sprint(text, e.Key[1:], e.Value))
		}
	}
	return out
}

// addElement adds the text to the prefixes of a value.
func addElement(out map[netip.Prefix]string, v datapath.Value, text string) {
	low, _ := netip.AddrFromSlice([]byte(v.Low))
	high, _ := netip.AddrFromSlice([]byte(v.High))
	for _, p := range netipx.IPRangeFrom(low, high).Prefixes() {
		out[p] += text
	}
}
