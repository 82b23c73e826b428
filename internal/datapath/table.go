// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"net/netip"
	"slices"
	"strings"
)

// TableName is the name of our nftables tables, one per family. Users may ask for additional tables.
const TableName = "liqo"

// PendingFlushTable is the name of an empty IPv4 table: the marker of a pending conntrack flush.
const PendingFlushTable = "liqo_unsettled"

// Table is a complete nftables table.
type Table struct {
	Family Family
	Name   string
	// Counters are the names of counters. Their values survive changes of rules.
	Counters []string
	Sets     []Set
	Chains   []Chain
}

// Set is an nftables set, or a map if it has a Value. Its elements do not overlap.
type Set struct {
	Name     string
	Key      []Type // more than one type: a concatenation
	Value    []Type // empty: a set, not a map
	Elements []Element
}

// Element is an element of a set or map, with values of the types of Key and Value in the same order.
type Element struct {
	Key   []Value
	Value []Value
}

// Type is the data type of a value and implies its length.
type Type uint8

// Data types.
const (
	TypeAddress Type = iota + 1 // of the table's family
	TypePort
	TypeProtocol
	TypeOtherAddress // of the other family
)

// Value is a single value or the range from Low to High, in network byte order.
type Value struct {
	Type      Type
	Low, High string
}

// Addr returns the value for one address.
func Addr(a netip.Addr) Value {
	return Value{TypeAddress, string(a.AsSlice()), string(a.AsSlice())}
}

// Prefix returns the range of all addresses of a prefix.
func Prefix(p netip.Prefix) Value {
	low := p.Masked().Addr().AsSlice()
	high := slices.Clone(low)
	for i := p.Bits(); i < 8*len(high); i++ {
		high[i/8] |= 0x80 >> (i % 8)
	}
	return Value{TypeAddress, string(low), string(high)}
}

// OtherPrefix returns the range of all addresses of a prefix of the other family than the table's.
func OtherPrefix(p netip.Prefix) Value {
	v := Prefix(p)
	v.Type = TypeOtherAddress
	return v
}

// Port returns the value for one port.
func Port(n uint16) Value { return Ports(n, n) }

// Ports returns the range of ports from low to high.
func Ports(low, high uint16) Value {
	return Value{TypePort, string(binary.BigEndian.AppendUint16(nil, low)), string(binary.BigEndian.AppendUint16(nil, high))}
}

// Protocols above IP, as IANA numbers them.
const (
	ICMP   = 1
	TCP    = 6
	UDP    = 17
	ICMPv6 = 58
)

// ProtocolValue returns the value for a protocol above IP.
func ProtocolValue(n uint8) Value { return Value{TypeProtocol, string([]byte{n}), string([]byte{n})} }

// Single reports whether the value is not a range.
func (v Value) Single() bool { return v.Low == v.High }

// String returns the value as nft prints it.
func (v Value) String() string {
	if v.Single() {
		return v.Type.formatValue(v.Low)
	}
	if v.Type == TypeAddress || v.Type == TypeOtherAddress {
		if p, ok := v.asPrefix(); ok {
			return p.String()
		}
	}
	return v.Type.formatValue(v.Low) + "-" + v.Type.formatValue(v.High)
}

// asPrefix returns the range as a prefix, and false if the range is not a prefix.
func (v Value) asPrefix() (netip.Prefix, bool) {
	low, ok := netip.AddrFromSlice([]byte(v.Low))
	if !ok {
		return netip.Prefix{}, false
	}
	for bits := range low.BitLen() + 1 {
		p := netip.PrefixFrom(low, bits)
		if whole := Prefix(p); p.Masked() == p && whole.Low == v.Low && whole.High == v.High {
			return p, true
		}
	}
	return netip.Prefix{}, false
}

func (t Type) formatValue(raw string) string {
	switch t {
	case TypeAddress, TypeOtherAddress:
		a, _ := netip.AddrFromSlice([]byte(raw))
		return a.String()
	case TypePort:
		return fmt.Sprint(binary.BigEndian.Uint16([]byte(raw)))
	default:
		return protocolName(raw[0])
	}
}

func protocolName(n uint8) string {
	switch n {
	case ICMP:
		return "icmp"
	case TCP:
		return "tcp"
	case UDP:
		return "udp"
	case ICMPv6:
		return "icmpv6"
	}
	return fmt.Sprint(n)
}

// nftName returns the type in the syntax of nft.
func (t Type) nftName(f Family) string {
	switch t {
	case TypeAddress:
		return map[Family]string{IPv4: "ipv4_addr", IPv6: "ipv6_addr"}[f]
	case TypeOtherAddress:
		return TypeAddress.nftName(f.otherFamily())
	case TypePort:
		return "inet_service"
	default:
		return "inet_proto"
	}
}

// Chain is a list of rules. A base chain has a hook; a regular chain runs by jump or goto only.
type Chain struct {
	Name     string
	Type     ChainType
	Hook     Hook
	Priority int
	Policy   VerdictKind // of base chains: Drop, else Accept
	Rules    [][]Statement
}

// ChainType is the type of a base chain.
type ChainType string

// Types of base chains.
const (
	Filter ChainType = "filter"
	NAT    ChainType = "nat"
)

// Hook is the netfilter hook of a base chain; "" for regular chains.
type Hook string

// Hooks of base chains.
const (
	Prerouting  Hook = "prerouting"
	Input       Hook = "input"
	Forward     Hook = "forward"
	Output      Hook = "output"
	Postrouting Hook = "postrouting"
)

// Interval reports whether an element of the set is a range.
func (s Set) Interval() bool {
	return slices.ContainsFunc(s.Elements, func(e Element) bool {
		return slices.ContainsFunc(e.Key, func(v Value) bool { return !v.Single() })
	})
}

func (t *Table) sortAll() {
	slices.Sort(t.Counters)
	slices.SortFunc(t.Sets, func(a, b Set) int { return cmp.Compare(a.Name, b.Name) })
	for _, s := range t.Sets {
		slices.SortFunc(s.Elements, func(a, b Element) int { return slices.CompareFunc(a.Key, b.Key, compareValues) })
	}
}

func compareValues(a, b Value) int {
	return cmp.Or(cmp.Compare(a.Low, b.Low), cmp.Compare(a.High, b.High))
}

// String returns the table in the syntax of nft.
func (t Table) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "table %s %s {\n", t.Family, t.Name)
	for _, c := range t.Counters {
		fmt.Fprintf(&b, "\tcounter %s {}\n", c)
	}
	for _, s := range t.Sets {
		b.WriteString(s.nftText(t.Family))
	}
	for _, c := range t.Chains {
		fmt.Fprintf(&b, "\tchain %s {\n", c.Name)
		if c.Hook != "" {
			fmt.Fprintf(&b, "\t\ttype %s hook %s priority %d; policy %s;\n", c.Type, c.Hook, c.Priority, cmp.Or(c.Policy, Accept))
		}
		for _, r := range c.Rules {
			fmt.Fprintf(&b, "\t\t%s\n", RuleText(t.Family, r))
		}
		b.WriteString("\t}\n")
	}
	b.WriteString("}")
	return b.String()
}

// RuleText returns a rule in the syntax of nft.
func RuleText(f Family, rule []Statement) string {
	parts := make([]string, len(rule))
	for i, s := range rule {
		parts[i] = s.nftText(f)
	}
	return strings.Join(parts, " ")
}

func (s Set) nftText(f Family) string {
	kind, types := "set", typeNames(f, s.Key)
	if len(s.Value) > 0 {
		kind, types = "map", types+" : "+typeNames(f, s.Value)
	}
	flags := ""
	if s.Interval() {
		flags = " flags interval;"
	}
	elements := make([]string, len(s.Elements))
	for i, e := range s.Elements {
		elements[i] = joinValues(e.Key)
		if len(e.Value) > 0 {
			elements[i] += " : " + joinValues(e.Value)
		}
	}
	if len(elements) == 0 {
		return fmt.Sprintf("\t%s %s { type %s;%s }\n", kind, s.Name, types, flags)
	}
	return fmt.Sprintf("\t%s %s { type %s;%s elements = { %s } }\n", kind, s.Name, types, flags, strings.Join(elements, ", "))
}

func typeNames(f Family, types []Type) string {
	out := make([]string, len(types))
	for i, t := range types {
		out[i] = t.nftName(f)
	}
	return strings.Join(out, " . ")
}

func joinValues(values []Value) string {
	out := make([]string, len(values))
	for i, v := range values {
		out[i] = v.String()
	}
	return strings.Join(out, " . ")
}
