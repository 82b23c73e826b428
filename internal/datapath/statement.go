// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"fmt"
	"net/netip"
	"strings"
)

// Statement is one part of an nftables rule: a match, which lets the rest of the rule run, or an action.
type Statement interface{ nftText(Family) string }

// Field is a header field of a packet, or a property of the packet or its conntrack entry.
type Field uint8

// Fields of packets and conntrack entries. Addresses and ICMP types are of the table's family.
const (
	Source Field = iota + 1
	Destination
	// QuotedSource and QuotedDestination are in the header quoted by an ICMP error. Writing them also corrects the quoted checksum.
	QuotedSource
	QuotedDestination
	// InnerSource is the source of the packet inside a VXLAN packet of the same family: 42 bytes into UDP for IPv4 in Ethernet. InnerSource does not
	// match an inner packet of another family.
	InnerSource
	SourcePort
	DestinationPort
	L4Protocol // next header above IP
	ICMPType
	OriginalSource      // of the first packet of the connection
	OriginalDestination // of the first packet of the connection
	SourceScope         // type of the route back to the source, from the FIB
	DestinationScope    // type of the route to the destination, from the FIB
	InputDevice
	OutputDevice
	Mark
	FlowMark
	FlowState
	FlowStatus
	// OtherInnerSource is InnerSource for inner packets of another family than the table's: 38 bytes into UDP for IPv6. OtherInnerSource does not
	// match an inner packet of the table's family.
	OtherInnerSource
)

// Symbolic values of some fields.
const (
	Local       = "local"       // of SourceScope and DestinationScope
	New         = "new"         // of FlowState
	Invalid     = "invalid"     // of FlowState
	Established = "established" // of FlowState
	Related     = "related"     // of FlowState
	Translated  = "dnat"        // of FlowStatus: the destination was translated (DNAT)
)

func (f Field) nftName(family Family) string {
	switch f {
	case Source:
		return family.String() + " saddr"
	case Destination:
		return family.String() + " daddr"
	case QuotedSource:
		return "quoted " + family.String() + " saddr"
	case QuotedDestination:
		return "quoted " + family.String() + " daddr"
	case InnerSource:
		return "inner " + family.String() + " saddr"
	case SourcePort:
		return "th sport"
	case DestinationPort:
		return "th dport"
	case L4Protocol:
		return "meta l4proto"
	case ICMPType:
		return map[Family]string{IPv4: "icmp type", IPv6: "icmpv6 type"}[family]
	case OriginalSource:
		return "ct original " + family.String() + " saddr"
	case OriginalDestination:
		return "ct original " + family.String() + " daddr"
	case SourceScope:
		return "fib saddr type"
	case DestinationScope:
		return "fib daddr type"
	case InputDevice:
		return "iifname"
	case OutputDevice:
		return "oifname"
	case Mark:
		return "meta mark"
	case FlowMark:
		return "ct mark"
	case FlowState:
		return "ct state"
	case FlowStatus:
		return "ct status"
	case OtherInnerSource:
		return "inner " + family.otherFamily().String() + " saddr"
	}
	return fmt.Sprintf("field %d", f)
}

// Lookup matches if the values of the fields are in a set; several fields are concatenated.
type Lookup struct {
	Fields []Field
	Not    bool
	Set    string
}

// Cmp matches if the value of the field is one of the values.
type Cmp struct {
	Field  Field
	Not    bool
	Values []Value
}

// Word matches if the field has a symbolic value: a device name, or one of the constants above.
type Word struct {
	Field Field
	Not   bool
	Word  string
}

// Number matches if the field has one of the numbers: marks, ICMP types.
type Number struct {
	Field   Field
	Not     bool
	Numbers []uint32
}

// SYN matches packets that open a TCP connection.
type SYN struct{}

// SetNumber writes a number into a mark.
type SetNumber struct {
	Field  Field
	Number uint32
}

// Copy copies one mark into the other.
type Copy struct{ To, From Field }

// SetMapped writes the value of a map for the field into the field. Without an element in the map, the rest of the rule is skipped.
type SetMapped struct {
	Field Field
	Map   string
}

// SetPrefix replaces the prefix of an address field and keeps the host bits. A prefix of full length replaces the address.
type SetPrefix struct {
	Field  Field
	Prefix netip.Prefix
}

// Counter adds the packet to a named counter of the table.
type Counter struct{ Name string }

// AnonymousCounter adds the packet to a counter with the lifetime of its rule.
type AnonymousCounter struct{}

// VerdictKind is a verdict on a packet.
type VerdictKind string

// Verdicts.
const (
	Accept VerdictKind = "accept"
	Drop   VerdictKind = "drop"
	Return VerdictKind = "return"
	Jump   VerdictKind = "jump"
	GoTo   VerdictKind = "goto"
)

// Verdict ends the rule with a verdict.
type Verdict struct {
	Kind  VerdictKind
	Chain string // target of jump and goto
}

// Reject drops the packet and answers with ICMP network unreachable.
type Reject struct{}

// Notrack excludes the packet from conntrack.
type Notrack struct{}

// TranslateSource is SNAT. The source port is kept where possible.
type TranslateSource struct {
	To netip.Prefix // one address, or a prefix: the host bits are kept
	// Identity translates the source to itself, so that no later chain translates it.
	Identity bool
}

// TranslateDestination is DNAT.
type TranslateDestination struct {
	To netip.Prefix // one address, or a prefix: the host bits are kept
	// Map, if set, maps the fields Key to the destination; without an element there is no translation.
	Map string
	Key []Field
}

// Masquerade is SNAT to the address of the outgoing device.
type Masquerade struct{}

// ClampMSS lowers the maximum segment size in the options of a TCP SYN.
type ClampMSS struct{ Size uint16 } // bytes; 0: from the route's MTU

// Observed is a rule read back from the kernel: its source text, truncated to the size of the user data.
type Observed struct{ Text string }

func (m Lookup) nftText(f Family) string {
	fields := make([]string, len(m.Fields))
	for i, field := range m.Fields {
		fields[i] = field.nftName(f)
	}
	return strings.Join(fields, " . ") + negation(m.Not) + " @" + m.Set
}

func (m Cmp) nftText(f Family) string {
	if len(m.Values) == 1 {
		return m.Field.nftName(f) + negation(m.Not) + " " + m.Values[0].String()
	}
	values := make([]string, len(m.Values))
	for i, v := range m.Values {
		values[i] = v.String()
	}
	return fmt.Sprintf("%s%s { %s }", m.Field.nftName(f), negation(m.Not), strings.Join(values, ", "))
}

func (m Word) nftText(f Family) string {
	word := m.Word
	if m.Field == InputDevice || m.Field == OutputDevice {
		word = fmt.Sprintf("%q", word)
	}
	return m.Field.nftName(f) + negation(m.Not) + " " + word
}

func (m Number) nftText(f Family) string {
	numbers := strings.Trim(strings.ReplaceAll(fmt.Sprint(m.Numbers), " ", ", "), "[]")
	if len(m.Numbers) > 1 {
		numbers = "{ " + numbers + " }"
	}
	return m.Field.nftName(f) + negation(m.Not) + " " + numbers
}

func negation(b bool) string {
	if b {
		return " !="
	}
	return ""
}

func (SYN) nftText(Family) string { return "tcp flags syn" }

func (s SetNumber) nftText(f Family) string {
	return fmt.Sprintf("%s set %d", s.Field.nftName(f), s.Number)
}

func (s Copy) nftText(f Family) string { return s.To.nftName(f) + " set " + s.From.nftName(f) }

func (s SetMapped) nftText(f Family) string {
	return fmt.Sprintf("%s set %[1]s map @%s", s.Field.nftName(f), s.Map)
}

func (s SetPrefix) nftText(f Family) string {
	return fmt.Sprintf("%s set prefix %s", s.Field.nftName(f), s.Prefix)
}

func (s Counter) nftText(Family) string { return "counter name " + s.Name }

func (AnonymousCounter) nftText(Family) string { return "counter" }

func (v Verdict) nftText(Family) string {
	if v.Chain != "" {
		return string(v.Kind) + " " + v.Chain
	}
	return string(v.Kind)
}

func (Reject) nftText(Family) string { return "reject" }

func (Notrack) nftText(Family) string { return "notrack" }

func (s TranslateSource) nftText(f Family) string {
	if s.Identity {
		return "snat to " + Source.nftName(f)
	}
	return "snat to " + targetText(s.To)
}

func (s TranslateDestination) nftText(f Family) string {
	if s.Map == "" {
		return "dnat to " + targetText(s.To)
	}
	key := make([]string, len(s.Key))
	for i, field := range s.Key {
		key[i] = field.nftName(f)
	}
	return fmt.Sprintf("dnat to %s map @%s", strings.Join(key, " . "), s.Map)
}

func (o Observed) nftText(Family) string { return o.Text }

func targetText(p netip.Prefix) string {
	if p.IsSingleIP() {
		return p.Addr().String()
	}
	return "prefix " + p.String()
}

func (Masquerade) nftText(Family) string { return "masquerade" }

func (c ClampMSS) nftText(Family) string {
	if c.Size == 0 {
		return "tcp option maxseg size set rt mtu"
	}
	return fmt.Sprintf("tcp option maxseg size set %d", c.Size)
}
