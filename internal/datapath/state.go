// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

// Package datapath declares the desired network state of one network namespace: links, addresses, neighbours and FDB entries, routes, policy routing
// rules and nftables tables. Plans build a State without a kernel; the text form is the syntax of ip and nft.
package datapath

import (
	"cmp"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
)

// Protocol marks our routes and rules, so that they are distinguishable from foreign routes and rules after a restart.
const Protocol = 91

// AddressLabel marks our IPv4 addresses on lo.
const AddressLabel = "lo:liqo"

// State is the complete desired state of a network namespace. Objects of ours that are missing from the State are removed.
type State struct {
	Links      []Link
	Addresses  []Address
	Neighbours []Neighbour
	Routes     []Route
	Rules      []Rule
	Tables     []Table
}

// Link is a device. VXLANs and both ends of a veth pair are created and removed. For every other device, created by its user, only the MTU and the
// state "up" are set.
type Link struct {
	Name  string
	VXLAN *VXLAN
	Veth  *Veth // both nil: the device is created elsewhere and may be absent
	MTU   int   // bytes; 0: unchanged
}

// VXLAN is a device without learning and without an address: frames go where the FDB entries of the Neighbours send them.
type VXLAN struct {
	ID   uint32
	Port uint16 // UDP
	MAC  [6]byte
}

// Veth is one end of a veth pair without an address. The other end is a Link, too.
type Veth struct {
	Peer string
	MAC  [6]byte
}

// Address is an address of ours on a device.
type Address struct {
	Device string
	Prefix netip.Prefix // with host bits
}

// Neighbour is a permanent neighbour entry on one of our devices; on a VXLAN with the FDB entry for its frames.
type Neighbour struct {
	Device string
	Next   netip.Addr // next hop of routes
	MAC    [6]byte
	Outer  netip.Addr // destination of the outer packet; the zero value on a veth
}

// Route is one route of a routing table.
type Route struct {
	Table       int
	To          netip.Prefix
	Unreachable bool // if set, Device to Scope are ignored, Metric is not
	Device      string
	Via         netip.Addr // the zero value: To is on-link. IPv4 via IPv6 uses the newer attribute "via"
	OnLink      bool       // Via needs no route of its own
	Source      netip.Addr // preferred source; the zero value: the kernel's choice
	MTU         int        // bytes; 0: the device's
	Metric      int
	Scope       Scope
}

// Scope is the scope of an IPv4 route: the distance to its destination.
type Scope uint8

// Scopes of routes, numbered as in the kernel.
const (
	ScopeGlobal Scope = 0
	ScopeSite   Scope = 200
	ScopeLink   Scope = 253
	ScopeHost   Scope = 254
)

// Rule is a policy routing rule: a rule selects a routing table or jumps over other rules.
type Rule struct {
	Priority    int
	Family      Family       // of From and To
	From, To    netip.Prefix // the zero value: any
	Input       string       // device; "": any
	Output      string
	Mark        uint32 // 0: any
	Table       int
	Unreachable bool // instead of a table
	GoTo        int  // priority of the next rule, a later one, instead of a table; 0: none
	Nop         bool // instead of a table: a target for GoTo
}

// MainTable is the main routing table, used by the kernel, DHCP and CNIs.
const MainTable = 254

// UnreachableMetric is the metric of fallback routes of type unreachable: worse than any other metric.
const UnreachableMetric = 4278198272

// Family is an address family.
type Family uint8

// Address families, numbered by IP version.
const (
	IPv4 Family = 4
	IPv6 Family = 6
)

// FamilyOf returns the family of an address.
func FamilyOf(a netip.Addr) Family {
	if a.Is4() {
		return IPv4
	}
	return IPv6
}

// String returns the family in the syntax of nftables.
func (f Family) String() string {
	if f == IPv4 {
		return "ip"
	}
	return "ip6"
}

func (f Family) otherFamily() Family {
	if f == IPv4 {
		return IPv6
	}
	return IPv4
}

// MAC returns the MAC address on the fabric of the next hop addr: locally administered, the same on every node.
func MAC(addr netip.Addr) [6]byte {
	b := addr.As16() // the last four bytes hold a whole IPv4 address
	if addr.Is6() {
		for i := range 12 { // IPv6 addresses differ in the first twelve bytes, too
			b[12+i%4] ^= b[i] << (i / 4)
		}
	}
	return [6]byte{0x02, 0x6c, b[12], b[13], b[14], b[15]}
}

// Sort brings the state into the order for comparing and printing. nftables tables, chains and rules keep their order.
func (s *State) Sort() {
	slices.SortFunc(s.Links, func(a, b Link) int { return cmp.Compare(a.Name, b.Name) })
	slices.SortFunc(s.Addresses, func(a, b Address) int {
		return cmp.Or(cmp.Compare(a.Device, b.Device), a.Prefix.Compare(b.Prefix))
	})
	slices.SortFunc(s.Neighbours, func(a, b Neighbour) int { return cmp.Or(cmp.Compare(a.Device, b.Device), a.Next.Compare(b.Next)) })
	slices.SortFunc(s.Routes, func(a, b Route) int {
		return cmp.Or(cmp.Compare(a.Table, b.Table), a.To.Compare(b.To), cmp.Compare(a.Metric, b.Metric))
	})
	slices.SortFunc(s.Rules, func(a, b Rule) int {
		return cmp.Or(cmp.Compare(a.Priority, b.Priority), cmp.Compare(a.Family, b.Family), a.From.Compare(b.From), a.To.Compare(b.To),
			cmp.Compare(a.Input, b.Input), cmp.Compare(a.Output, b.Output), cmp.Compare(a.Mark, b.Mark), cmp.Compare(a.Table, b.Table), cmp.Compare(a.GoTo, b.GoTo))
	})
	for i := range s.Tables {
		s.Tables[i].sortAll()
	}
}

// String returns one line per object, in the syntax of ip and nft.
func (s State) String() string {
	var b strings.Builder
	writeLines(&b, s.Links)
	writeLines(&b, s.Addresses)
	writeLines(&b, s.Neighbours)
	writeLines(&b, s.Routes)
	writeLines(&b, s.Rules)
	writeLines(&b, s.Tables)
	return b.String()
}

func writeLines[T fmt.Stringer](b *strings.Builder, of []T) {
	for _, one := range of {
		fmt.Fprintln(b, one)
	}
}

func (l Link) String() string {
	w := lineBuilder{"link", l.Name}
	if v := l.VXLAN; v != nil {
		w.addWords("address", macString(v.MAC), "vxlan id", v.ID, "dstport", v.Port, "nolearning")
	}
	if v := l.Veth; v != nil {
		w.addWords("address", macString(v.MAC), "veth peer", v.Peer)
	}
	if l.MTU != 0 {
		w.addWords("mtu", l.MTU)
	}
	return w.joinWords()
}

func (a Address) String() string { return fmt.Sprintf("addr %s dev %s", a.Prefix, a.Device) }

func (h Neighbour) String() string {
	w := lineBuilder{"neigh", h.Next, "lladdr", macString(h.MAC), "dev", h.Device}
	if h.Outer.IsValid() {
		w.addWords("dst", h.Outer)
	}
	return w.joinWords()
}

func (r Route) String() string {
	w := lineBuilder{"route"}
	if r.Unreachable {
		w.addWords("unreachable")
	}
	w.addWords(r.To)
	if r.Via.IsValid() {
		w.addWords("via", r.Via)
	}
	if r.Device != "" {
		w.addWords("dev", r.Device)
	}
	if r.OnLink {
		w.addWords("onlink")
	}
	if r.Scope != ScopeGlobal {
		w.addWords("scope", r.Scope)
	}
	if r.Source.IsValid() {
		w.addWords("src", r.Source)
	}
	if r.MTU != 0 {
		w.addWords("mtu", r.MTU)
	}
	if r.Metric != 0 {
		w.addWords("metric", r.Metric)
	}
	w.addWords("table", r.Table)
	return w.joinWords()
}

func (s Scope) String() string {
	switch s {
	case ScopeGlobal:
		return "global"
	case ScopeSite:
		return "site"
	case ScopeLink:
		return "link"
	case ScopeHost:
		return "host"
	}
	return fmt.Sprint(uint8(s))
}

func (r Rule) String() string {
	w := lineBuilder{"rule"}
	if r.Family == IPv6 {
		w.addWords("-6")
	}
	w.addWords("pref", r.Priority)
	if r.From.IsValid() {
		w.addWords("from", r.From)
	}
	if r.To.IsValid() {
		w.addWords("to", r.To)
	}
	if r.Input != "" {
		w.addWords("iif", r.Input)
	}
	if r.Output != "" {
		w.addWords("oif", r.Output)
	}
	if r.Mark != 0 {
		w.addWords("fwmark", r.Mark)
	}
	switch {
	case r.Unreachable:
		w.addWords("unreachable")
	case r.GoTo != 0:
		w.addWords("goto", r.GoTo)
	case r.Nop:
		w.addWords("nop")
	case r.Table == MainTable:
		w.addWords("lookup main")
	default:
		w.addWords("lookup", r.Table)
	}
	return w.joinWords()
}

func macString(mac [6]byte) string { return net.HardwareAddr(mac[:]).String() }

// lineBuilder collects words, to be joined with blanks.
type lineBuilder []any

func (w *lineBuilder) addWords(more ...any) { *w = append(*w, more...) }

func (w lineBuilder) joinWords() string { return strings.TrimSuffix(fmt.Sprintln(w...), "\n") }
