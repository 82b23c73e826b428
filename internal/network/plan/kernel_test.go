// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"liqo.io/liqo/internal/datapath"
)

// A kernel of paper: it walks packets through states, as far as states say where packets go and what their addresses are.

// packet is on its way. Ports of the other side, and lengths, are none of our business.
type packet struct {
	src, dst   netip.Addr
	protocol   uint8
	port       uint16
	icmp       uint32     // type
	qsrc, qdst netip.Addr // quoted
	in, out    string
	inner      *packet // of packets of the fabric
	osrc, odst netip.Addr
	untracked  bool
	state      string // of the flow
	translated bool
	// what they become by the flow
	asSrc, asDst, asQuotedDst netip.Addr
}

func (p packet) String() string {
	s := fmt.Sprintf("%s > %s", p.src, p.dst)
	if p.qsrc.IsValid() {
		s += fmt.Sprintf(" (about %s > %s)", p.qsrc, p.qdst)
	}
	return s
}

// flow is what connection tracking remembers: the first packet, and what it became.
type flow struct{ osrc, odst, src, dst netip.Addr }

// namespace is a host, or a gateway's pod.
type namespace struct {
	name  string
	state datapath.State
	local []netip.Addr // more of its own
	flows []flow
	// speaks is the address with which it talks to another of the fabric; tunnel is at the other end of its tunnel.
	speaks func(to *namespace) netip.Addr
	tunnel *namespace
}

func (n *namespace) isLocal(a netip.Addr) bool {
	return slices.Contains(n.local, a) || slices.ContainsFunc(n.state.Addresses, func(o datapath.Address) bool { return o.Prefix.Addr() == a })
}

// chains has those of a hook, in order.
func (n *namespace) chains(h datapath.Hook, f datapath.Family) (out []datapath.Chain, tables []datapath.Table) {
	type both struct {
		c datapath.Chain
		t datapath.Table
	}
	var all []both
	for _, t := range n.state.Tables {
		for _, c := range t.Chains {
			if c.Hook == h && t.Family == f {
				all = append(all, both{c, t})
			}
		}
	}
	slices.SortStableFunc(all, func(a, b both) int { return a.c.Priority - b.c.Priority })
	for _, b := range all {
		out, tables = append(out, b.c), append(tables, b.t)
	}
	return out, tables
}

// hook runs the chains with priorities from low to high; "" if the packet may go on, or else what stopped it.
func (n *namespace) hook(h datapath.Hook, p *packet, low, high int) string {
	chains, tables := n.chains(h, datapath.FamilyOf(p.src))
	for i, c := range chains {
		if c.Priority < low || c.Priority >= high || c.Type == datapath.NAT && (p.untracked || p.state != datapath.New) {
			continue
		}
		verdict, reason := n.run(tables[i], c, p)
		if verdict == "" && c.Policy == datapath.Drop {
			verdict, reason = datapath.Drop, "policy"
		}
		if verdict == datapath.Drop {
			return reason
		}
	}
	return ""
}

// run is the verdict of a chain, "" if it has none, and the counter of a drop.
func (n *namespace) run(t datapath.Table, c datapath.Chain, p *packet) (datapath.VerdictKind, string) {
rules:
	for _, r := range c.Rules {
		counter := ""
		for _, s := range r {
			switch s := s.(type) {
			case datapath.Counter:
				counter = s.Name
			case datapath.Verdict:
				switch s.Kind {
				case datapath.Accept, datapath.Drop:
					return s.Kind, counter
				case datapath.Return:
					return "", ""
				}
				i := slices.IndexFunc(t.Chains, func(o datapath.Chain) bool { return o.Name == s.Chain })
				verdict, reason := n.run(t, t.Chains[i], p)
				if verdict != "" || s.Kind == datapath.GoTo {
					return verdict, reason
				}
			default:
				if !n.step(t, s, p) {
					continue rules
				}
				switch s.(type) {
				case datapath.TranslateSource, datapath.TranslateDestination, datapath.Masquerade:
					return datapath.Accept, ""
				}
			}
		}
	}
	return "", ""
}

// step does what a statement says; false if the rest of the rule does not happen.
func (n *namespace) step(t datapath.Table, s datapath.Statement, p *packet) bool {
	switch s := s.(type) {
	case datapath.Lookup:
		_, ok := n.find(t, s.Set, p, s.Fields)
		return ok != s.Not
	case datapath.Cmp:
		got, ok := n.value(s.Field, p)
		return ok && s.Not != slices.ContainsFunc(s.Values, func(v datapath.Value) bool { return v.Low <= got && got <= v.High })
	case datapath.Word:
		return s.Not != n.word(s.Field, s.Word, p)
	case datapath.Number:
		return p.icmp != 0 && s.Not != slices.Contains(s.Numbers, p.icmp)
	case datapath.SetMapped:
		e, ok := n.find(t, s.Map, p, []datapath.Field{s.Field})
		if ok {
			*address(s.Field, p), _ = netip.AddrFromSlice([]byte(e.Value[0].Low))
		}
		return ok
	case datapath.SetPrefix:
		to := address(s.Field, p)
		*to = moved(*to, s.Prefix)
	case datapath.Notrack:
		p.untracked = true
	case datapath.TranslateSource:
		if !s.Identity {
			p.src = s.To.Addr()
		}
	case datapath.TranslateDestination:
		e, ok := n.find(t, s.Map, p, s.Key)
		if ok {
			p.dst, _ = netip.AddrFromSlice([]byte(e.Value[0].Low))
			p.translated = true
		}
		return ok
	case datapath.Masquerade:
		p.src = n.local[0]
	case datapath.SYN:
		return false
	}
	return true
}

func moved(a netip.Addr, to netip.Prefix) netip.Addr {
	b, n := a.AsSlice(), to.Addr().AsSlice()
	for i := range to.Bits() {
		b[i/8] = b[i/8]&^(0x80>>(i%8)) | n[i/8]&(0x80>>(i%8))
	}
	a, _ = netip.AddrFromSlice(b)
	return a
}

func address(f datapath.Field, p *packet) *netip.Addr {
	switch f {
	case datapath.Source:
		return &p.src
	case datapath.Destination:
		return &p.dst
	case datapath.QuotedSource:
		return &p.qsrc
	case datapath.QuotedDestination:
		return &p.qdst
	case datapath.OriginalSource:
		return &p.osrc
	case datapath.OriginalDestination:
		return &p.odst
	}
	return nil
}

func (n *namespace) value(f datapath.Field, p *packet) (string, bool) {
	switch f {
	case datapath.InnerSource, datapath.OtherInnerSource:
		if p.inner == nil || (f == datapath.InnerSource) != (p.inner.src.Is4() == p.src.Is4()) {
			return "", false
		}
		return string(p.inner.src.AsSlice()), true
	case datapath.L4Protocol:
		return string([]byte{p.protocol}), true
	case datapath.DestinationPort:
		return datapath.Port(p.port).Low, true
	}
	a := *address(f, p)
	if p.untracked && (f == datapath.OriginalSource || f == datapath.OriginalDestination) {
		return "", false
	}
	return string(a.AsSlice()), a.IsValid()
}

func (n *namespace) find(t datapath.Table, set string, p *packet, fields []datapath.Field) (datapath.Element, bool) {
	var key []string
	for _, f := range fields {
		v, ok := n.value(f, p)
		if !ok {
			return datapath.Element{}, false
		}
		key = append(key, v)
	}
	s := t.Sets[slices.IndexFunc(t.Sets, func(s datapath.Set) bool { return s.Name == set })]
	for _, e := range s.Elements {
		hit := true
		for i, v := range e.Key {
			hit = hit && len(v.Low) == len(key[i]) && v.Low <= key[i] && key[i] <= v.High
		}
		if hit {
			return e, true
		}
	}
	return datapath.Element{}, false
}

func (n *namespace) word(f datapath.Field, word string, p *packet) bool {
	switch f {
	case datapath.SourceScope:
		return n.isLocal(p.src)
	case datapath.DestinationScope:
		return n.isLocal(p.dst)
	case datapath.InputDevice:
		return p.in == word
	case datapath.OutputDevice:
		return p.out == word
	case datapath.FlowState:
		return !p.untracked && p.state == word
	case datapath.FlowStatus:
		return p.translated
	}
	panic(fmt.Sprint("no word of field ", f))
}

// track finds the flow of a packet.
func (n *namespace) track(p *packet) {
	p.osrc, p.odst, p.state, p.translated = p.src, p.dst, datapath.New, false
	p.asSrc, p.asDst, p.asQuotedDst = netip.Addr{}, netip.Addr{}, netip.Addr{}
	if p.untracked {
		p.state = ""
		return
	}
	if p.qsrc.IsValid() {
		p.state = datapath.Related
		if i := slices.IndexFunc(n.flows, func(f flow) bool { return p.qsrc == f.src && p.qdst == f.dst && p.dst == f.src }); i >= 0 {
			f := n.flows[i]
			p.asSrc, p.asDst, p.qsrc, p.asQuotedDst = f.odst, f.osrc, f.osrc, f.odst // the source is that of the flow, whichever router sent the error
		}
		return
	}
	for _, f := range n.flows {
		switch {
		case p.src == f.osrc && p.dst == f.odst:
			p.asSrc, p.asDst = f.src, f.dst
		case p.src == f.dst && p.dst == f.src:
			p.asSrc, p.asDst = f.odst, f.osrc
		default:
			continue
		}
		p.state, p.osrc, p.odst = datapath.Established, f.osrc, f.odst
		return
	}
}

// route is where a packet goes: "unreachable", or "" for what none of our rules is about.
func (n *namespace) route(p *packet) (datapath.Route, string) {
	after := first
	for _, r := range n.state.Rules { // in order
		if r.Priority < after || r.Mark != 0 || r.Nop {
			continue
		}
		if r.Family != datapath.FamilyOf(p.dst) || r.From.IsValid() && !r.From.Contains(p.src) || r.To.IsValid() && !r.To.Contains(p.dst) {
			continue
		}
		if r.Unreachable {
			return datapath.Route{}, "unreachable"
		}
		if r.GoTo > 0 {
			after = r.GoTo
			continue
		}
		if r.Table == datapath.MainTable {
			return datapath.Route{}, ""
		}
		best := datapath.Route{Metric: -1}
		for _, o := range n.state.Routes {
			if o.Table == r.Table && o.To.Contains(p.dst) &&
				(best.Metric < 0 || o.To.Bits() > best.To.Bits() || o.To.Bits() == best.To.Bits() && o.Metric < best.Metric) {
				best = o
			}
		}
		switch {
		case best.Unreachable:
			return datapath.Route{}, "unreachable"
		case best.Metric >= 0:
			return best, best.Device
		}
	}
	return datapath.Route{}, ""
}

const (
	first = -1 << 31
	last  = 1<<31 - 1
)

// simulatedNetwork is hosts that are connected.
type simulatedNetwork struct {
	outer map[netip.Addr]*namespace // by the addresses of the fabric, in each cluster
	trace []string
}

func (w *simulatedNetwork) note(n *namespace, format string, args ...any) {
	w.trace = append(w.trace, fmt.Sprintf("  %-14s ", n.name)+fmt.Sprintf(format, args...))
}

// travel takes a packet from a namespace to where it ends, and tells how: "delivered", "leaves" by no device of ours, or what stopped it. It
// comes in by a device; "" is for packets of processes of the namespace itself.
func (w *simulatedNetwork) travel(n *namespace, in string, p *packet) string {
	for range 10 {
		p.in, p.out, p.untracked = in, "", false
		hook := datapath.Prerouting
		if in == "" {
			hook = datapath.Output
		}
		if reason := n.hook(hook, p, first, connectionTracking); reason != "" {
			w.note(n, "%s stopped: %s", p, reason)
			return reason
		}
		n.track(p)
		if reason := n.hook(hook, p, connectionTracking, last); reason != "" {
			w.note(n, "%s stopped: %s", p, reason)
			return reason
		}
		if p.asDst.IsValid() {
			p.dst = p.asDst
		}
		if n.isLocal(p.dst) {
			if reason := n.hook(datapath.Input, p, first, last); reason != "" {
				w.note(n, "%s stopped: %s", p, reason)
				return reason
			}
			n.confirm(p)
			w.note(n, "%s delivered", p)
			return "delivered"
		}
		route, device := n.route(p)
		if device == "unreachable" {
			w.note(n, "%s unreachable", p)
			return device
		}
		p.out = device
		if in != "" {
			if reason := n.hook(datapath.Forward, p, first, last); reason != "" {
				w.note(n, "%s stopped: %s", p, reason)
				return reason
			}
		}
		if reason := n.hook(datapath.Postrouting, p, first, sourceNAT+1); reason != "" {
			w.note(n, "%s stopped: %s", p, reason)
			return reason
		}
		if p.asSrc.IsValid() {
			p.src = p.asSrc
		}
		if p.asQuotedDst.IsValid() {
			p.qdst = p.asQuotedDst
		}
		n.confirm(p)
		if reason := n.hook(datapath.Postrouting, p, sourceNAT+1, last); reason != "" {
			w.note(n, "%s stopped: %s", p, reason)
			return reason
		}
		switch device {
		case "liqo-tunnel":
			w.note(n, "%s into the tunnel", p)
			n, in = n.tunnel, device
		case "liqo.fabric":
			hop := n.state.Neighbours[slices.IndexFunc(n.state.Neighbours, func(h datapath.Neighbour) bool { return h.Next == route.Via })]
			to := w.outer[hop.Outer]
			w.note(n, "%s to %s", p, to.name)
			if reason := w.carry(to, n.speaks(to), hop.Outer, p); reason != "" {
				return reason
			}
			n, in = to, device
		case "liqo.probe":
			w.note(n, "%s to who probes", p)
			return "leaves"
		default:
			w.note(n, "%s leaves", p)
			return "leaves"
		}
	}
	return "loop"
}

// carry takes a packet over the fabric, inside of another one.
func (w *simulatedNetwork) carry(to *namespace, src, dst netip.Addr, p *packet) string {
	outer := &packet{src: src, dst: dst, protocol: datapath.UDP, port: 6091, inner: p, in: "eth0"}
	reason := to.hook(datapath.Prerouting, outer, first, last)
	if reason != "" {
		w.note(to, "from %s: %s stopped: %s", src, p, reason)
	}
	return reason
}

// confirm remembers a new flow.
func (n *namespace) confirm(p *packet) {
	if !p.untracked && p.state == datapath.New {
		n.flows = append(n.flows, flow{p.osrc, p.odst, p.src, p.dst})
	}
}

// text is how packets went.
func (w *simulatedNetwork) text() string { return strings.Join(w.trace, "\n") + "\n" }
