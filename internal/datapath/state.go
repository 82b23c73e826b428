// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

// Package datapath has the words for what one network namespace must hold of ours: devices, addresses, hops, routes, rules
// and tables of nftables. Plans are made of these words without a kernel, and are read by people in the syntax of ip and nft.
package datapath

import (
	"cmp"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
)

// Protocol marks routes and rules of ours, so that they are told from those of others after a restart.
const Protocol = 91

// AddressLabel marks IPv4 addresses of ours on lo.
const AddressLabel = "lo:liqo"

// State is all that a network namespace must have of ours. What is ours and not in it goes.
type State struct {
	Links      []Link
	Addresses  []Address
	Neighbours []Neighbour
	Routes     []Route
	Rules      []Rule
	Tables     []Table
}

// Link is a device. A VXLAN and the ends of a veth are made and removed; any other is made by whoever uses it, and only its MTU and being up
// are ours.
type Link struct {
	Name  string
	VXLAN *VXLAN
	Veth  *Veth // both nil: the device is somebody else's to make, and may be absent
	MTU   int   // bytes; 0: as it is
}

// VXLAN is a device that learns nothing and has no address of its own: all it sends goes where hops say.
type VXLAN struct {
	ID   uint32
	Port uint16 // UDP
	MAC  [6]byte
}

// Veth is one end of a pair of devices, which has no address of its own: what one end sends the other one receives. The other end is a link,
// too.
type Veth struct {
	Peer string
	MAC  [6]byte
}

// Address is one of ours on a device.
type Address struct {
	Device string
	Prefix netip.Prefix // with host bits
}

// Neighbour is a permanent neighbour on a device that is made, and where a VXLAN sends frames for it.
type Neighbour struct {
	Device string
	Next   netip.Addr // next hop of routes
	MAC    [6]byte
	Outer  netip.Addr // destination of the outer packet; the zero value on a veth
}

// Route is one route of a table of routes.
type Route struct {
	Table       int
	To          netip.Prefix
	Unreachable bool // instead of all below but Metric
	Device      string
	Via         netip.Addr // the zero value: To is on the link. IPv4 may go via IPv6, which is the newer attribute "via"
	OnLink      bool       // Via needs no route of its own
	Source      netip.Addr // preferred source; the zero value: the kernel's choice
	MTU         int        // bytes; 0: the device's
	Metric      int
	Scope       Scope
}

// Scope is how far away the destination of an IPv4 route is.
type Scope uint8

// Scopes of routes, in the kernel's numbers.
const (
	ScopeGlobal Scope = 0
	ScopeSite   Scope = 200
	ScopeLink   Scope = 253
	ScopeHost   Scope = 254
)

// Rule sends packets to a table of routes, or past other rules.
type Rule struct {
	Priority    int
	Family      Family       // of all that the rule says of addresses
	From, To    netip.Prefix // the zero value: any
	Input       string       // device; "": any
	Output      string
	Mark        uint32 // 0: any
	Table       int
	Unreachable bool // instead of a table
	GoTo        int  // the later priority of the rule that comes next, instead of a table; 0: none
	Nop         bool // instead of a table: it is there for others to go to
}

// MainTable is where the kernel, DHCP and CNIs have the routes of a host.
const MainTable = 254

// UnreachableMetric is the metric of routes that say "unreachable" where nothing better is known: worse than any other.
const UnreachableMetric = 4278198272

// Family is the family of addresses.
type Family uint8

// Families, by their versions.
const (
	IPv4 Family = 4
	IPv6 Family = 6
)

// FamilyOf is the family of an address.
func FamilyOf(a netip.Addr) Family {
	if a.Is4() {
		return IPv4
	}
	return IPv6
}

// String is the family as nftables calls it.
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

// MAC is the address on the fabric of whoever is the next hop addr: locally administered, the same everywhere.
func MAC(addr netip.Addr) [6]byte {
	b := addr.As16() // the last four bytes are all of an IPv4 address
	if addr.Is6() {
		for i := range 12 { // and IPv6 addresses differ in others, too
			b[12+i%4] ^= b[i] << (i / 4)
		}
	}
	return [6]byte{0x02, 0x6c, b[12], b[13], b[14], b[15]}
}

// Sort puts the state into the order in which it is compared and printed. Tables, chains and rules of nftables keep theirs.
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

// String has a line for each thing, as one would type it.
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

// lineBuilder are put together with a blank between each two.
type lineBuilder []any

func (w *lineBuilder) addWords(more ...any) { *w = append(*w, more...) }

func (w lineBuilder) joinWords() string { return strings.TrimSuffix(fmt.Sprintln(w...), "\n") }
