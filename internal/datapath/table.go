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

// TableName is the name of our own tables of nftables, one per family. Users may ask for more.
const TableName = "liqo"

// UnsettledName is the name of a table of IPv4 that is a mark, with nothing in it.
const UnsettledName = "liqo_unsettled"

// Table is a table of nftables, whole.
type Table struct {
	Family Family
	Name   string
	// Counters are counted by name. They keep their values when rules change.
	Counters []string
	Sets     []Set
	Chains   []Chain
}

// Set is a set of values, or a map of values to values. No two elements overlap.
type Set struct {
	Name     string
	Key      []Type // more than one: a concatenation
	Value    []Type // none: a set, not a map
	Elements []Element
}

// Element is a member of a set; its values have the types of the set, one by one.
type Element struct {
	Key   []Value
	Value []Value
}

// Type is what values mean, and how long they are.
type Type uint8

// Types of values.
const (
	TypeAddress Type = iota + 1 // of the table's family
	TypePort
	TypeProtocol
	TypeOtherAddress // of the family that the table is not of
)

// Value is one value, or all from Low to High. Both are in network byte order.
type Value struct {
	Type      Type
	Low, High string
}

// Addr is the value of one address.
func Addr(a netip.Addr) Value {
	return Value{TypeAddress, string(a.AsSlice()), string(a.AsSlice())}
}

// Prefix is the value of all addresses of a prefix.
func Prefix(p netip.Prefix) Value {
	low := p.Masked().Addr().AsSlice()
	high := slices.Clone(low)
	for i := p.Bits(); i < 8*len(high); i++ {
		high[i/8] |= 0x80 >> (i % 8)
	}
	return Value{TypeAddress, string(low), string(high)}
}

// OtherPrefix is the value of all addresses of a prefix that is not of the table's family.
func OtherPrefix(p netip.Prefix) Value {
	v := Prefix(p)
	v.Type = TypeOtherAddress
	return v
}

// Port is the value of one port.
func Port(n uint16) Value { return Ports(n, n) }

// Ports is the value of all ports from low to high.
func Ports(low, high uint16) Value {
	return Value{TypePort, string(binary.BigEndian.AppendUint16(nil, low)), string(binary.BigEndian.AppendUint16(nil, high))}
}

// Protocols above IP, by their numbers.
const (
	ICMP   = 1
	TCP    = 6
	UDP    = 17
	ICMPv6 = 58
)

// ProtocolValue is the value of a protocol above IP.
func ProtocolValue(n uint8) Value { return Value{TypeProtocol, string([]byte{n}), string([]byte{n})} }

// Single is true for a value that is not a range.
func (v Value) Single() bool { return v.Low == v.High }

// String is the value as nft prints it.
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

// asPrefix is the value as a prefix, if it is one.
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

// String is the type as nft calls it.
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

// Chain is a list of rules. A base chain has a hook; any other is only jumped to.
type Chain struct {
	Name     string
	Type     ChainType
	Hook     Hook
	Priority int
	Policy   VerdictKind // of base chains; Drop, or else packets are accepted
	Rules    [][]Statement
}

// ChainType is what a base chain may do.
type ChainType string

// Types of base chains.
const (
	Filter ChainType = "filter"
	NAT    ChainType = "nat"
)

// Hook is where a base chain meets packets; "" for chains that are only jumped to.
type Hook string

// Hooks of base chains.
const (
	Prerouting  Hook = "prerouting"
	Input       Hook = "input"
	Forward     Hook = "forward"
	Output      Hook = "output"
	Postrouting Hook = "postrouting"
)

// Interval is true if an element of the set is a range.
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

// String is the table as nft reads it.
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

// RuleText is a rule as nft reads it.
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
