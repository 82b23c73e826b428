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

// Translations say for each prefix what the base chains of type nat make of flows with an address in it: the text of their rules, in order where
// they name the same prefix.
// A rule that names no addresses is about its whole family. Both families are always there, for what a process does not know of that came
// before it.
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

// addRule adds a rule. What it is about has to fit all that it names, so that one of that is enough.
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
			for p, of := range elements { // of which the rule is not, so that it matters when they come and go
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

// ofFlow is true for fields that hold an address which connection tracking has of the flow.
func ofFlow(f datapath.Field) bool {
	return slices.Contains([]datapath.Field{datapath.Source, datapath.Destination, datapath.OriginalSource, datapath.OriginalDestination}, f)
}

// elementsOf are the first addresses of what is in a set or a map, with what a map has for them.
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

// addElement gives the prefixes of a value a text.
func addElement(out map[netip.Prefix]string, v datapath.Value, text string) {
	low, _ := netip.AddrFromSlice([]byte(v.Low))
	high, _ := netip.AddrFromSlice([]byte(v.High))
	for _, p := range netipx.IPRangeFrom(low, high).Prefixes() {
		out[p] += text
	}
}
