// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"fmt"
	"net/netip"
	"strings"
)

// Statement is one part of a rule: a match lets the rest of the rule happen, the others do something.
type Statement interface{ nftText(Family) string }

// Field is what a packet or its flow says of itself.
type Field uint8

// Fields of packets and flows. Those that hold addresses or types of ICMP are of the table's family.
const (
	Source Field = iota + 1
	Destination
	// QuotedSource and QuotedDestination are in the header that an ICMP error quotes. Writing them mends the quoted checksum.
	QuotedSource
	QuotedDestination
	// InnerSource is the source of the packet inside a VXLAN packet: 42 bytes into UDP for IPv4 in Ethernet. Same family as outside;
	// packets with an inner one of another family have none.
	InnerSource
	SourcePort
	DestinationPort
	L4Protocol // above IP
	ICMPType
	OriginalSource      // of the flow's first packet
	OriginalDestination // of the flow's first packet
	SourceScope         // the type of the route back to the source, as the FIB has it
	DestinationScope    // the type of the route to the destination
	InputDevice
	OutputDevice
	Mark
	FlowMark
	FlowState
	FlowStatus
	// OtherInnerSource is InnerSource where the inner packet is of the family that the table is not of: 38 bytes into UDP for IPv6.
	// Packets with an inner one of another family have none.
	OtherInnerSource
)

// Words that are values of some fields.
const (
	Local       = "local"       // of SourceScope and DestinationScope
	New         = "new"         // of FlowState
	Invalid     = "invalid"     // of FlowState
	Established = "established" // of FlowState
	Related     = "related"     // of FlowState
	Translated  = "dnat"        // of FlowStatus: the destination was translated
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

// Lookup matches if what the fields hold is in a set; several fields are concatenated.
type Lookup struct {
	Fields []Field
	Not    bool
	Set    string
}

// Cmp matches if what the field holds is one of the values.
type Cmp struct {
	Field  Field
	Not    bool
	Values []Value
}

// Word matches if the field holds the word: the name of a device, or one of the words of its field.
type Word struct {
	Field Field
	Not   bool
	Word  string
}

// Number matches if the field holds one of the numbers: marks, types of ICMP.
type Number struct {
	Field   Field
	Not     bool
	Numbers []uint32
}

// SYN matches packets that begin a connection of TCP.
type SYN struct{}

// SetNumber writes a number into a mark.
type SetNumber struct {
	Field  Field
	Number uint32
}

// Copy writes what one field holds into another, both marks.
type Copy struct{ To, From Field }

// SetMapped writes into a field what a map has for it. If the map has nothing, the rest of the rule does not happen.
type SetMapped struct {
	Field Field
	Map   string
}

// SetPrefix writes a prefix into the address of a field, whose host bits stay. A prefix of all bits writes the address.
type SetPrefix struct {
	Field  Field
	Prefix netip.Prefix
}

// Counter adds the packet to a counter of the table.
type Counter struct{ Name string }

// AnonymousCounter adds the packet to a counter that lives and goes with its rule.
type AnonymousCounter struct{}

// VerdictKind is what becomes of a packet.
type VerdictKind string

// Verdicts.
const (
	Accept VerdictKind = "accept"
	Drop   VerdictKind = "drop"
	Return VerdictKind = "return"
	Jump   VerdictKind = "jump"
	GoTo   VerdictKind = "goto"
)

// Verdict decides.
type Verdict struct {
	Kind  VerdictKind
	Chain string // of jump and goto
}

// Reject drops and tells the sender: network unreachable.
type Reject struct{}

// Notrack keeps the packet out of connection tracking.
type Notrack struct{}

// TranslateSource gives the flow another source, whose port is kept where possible.
type TranslateSource struct {
	To netip.Prefix // one address, or a prefix that takes the host bits over
	// Identity keeps the source, so that no later chain translates it.
	Identity bool
}

// TranslateDestination gives the flow another destination.
type TranslateDestination struct {
	To netip.Prefix // one address, or a prefix that takes the host bits over
	// Map, if there is one, has the destination for what the fields Key hold; without an element nothing is translated.
	Map string
	Key []Field
}

// Masquerade gives the flow the address of the device by which it leaves.
type Masquerade struct{}

// ClampMSS lowers the segments that a connection of TCP asks for.
type ClampMSS struct{ Size uint16 } // bytes; 0: what the route allows

// Observed is a rule that was read back from the kernel: the text that it was made from, as far as the kernel has room for it.
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
