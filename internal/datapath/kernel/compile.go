// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"math"
	"net/netip"
	"slices"

	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"

	"liqo.io/liqo/internal/datapath"
)

// Registers of four bytes. Concatenations take one after the other.
const firstRegister = unix.NFT_REG32_00

// Keys of the connection-tracking expression that are of one family, as the kernel wants them since 4.17, and its direction.
const (
	ctSourceIP       = 19
	ctDestinationIP  = 20
	ctSourceIP6      = 21
	ctDestinationIP6 = 22
)

// compiled is a rule in the kernel's terms.
type compiled struct {
	text  string
	parts []part
	sets  []anonymousSet
}

// part is an expression: one of the library's, or bytes where the library cannot say what is meant.
type part struct {
	of  expr.Any
	raw []byte
}

func (p part) bytes(family byte) ([]byte, error) {
	if p.of == nil {
		return p.raw, nil
	}
	return expr.Marshal(family, p.of)
}

// anonymousSet belongs to one look-up of one rule.
type anonymousSet struct {
	form     setForm
	elements map[interval]string
	lookup   *expr.Lookup
	host     bool // keys are numbers in the machine's byte order
}

// hash is the same for rules that do the same: what a newer version compiles otherwise is another rule.
func (c compiled) hash(family byte) (string, error) {
	h := sha256.New()
	fmt.Fprintf(h, "%d %s\n", family, c.text)
	for _, p := range c.parts {
		b, err := p.bytes(family)
		if err != nil {
			return "", err
		}
		h.Write(b)
	}
	return string(h.Sum(nil)[:hashSize]), nil
}

// What rules remember, in the form of attributes that nft knows and skips.
const (
	hashSize     = 16
	memoryHash   = 0xa1
	memoryText   = 0xa2
	memoryHead   = 2
	memoryLength = unix.NFT_USERDATA_MAXLEN
)

// memory is what a rule carries along: its hash, and as much of its text as there is room for.
func memory(hash, text string) []byte {
	text = text[:min(len(text), memoryLength-2*memoryHead-hashSize)]
	out := append([]byte{memoryHash, hashSize}, hash...)
	out = append(out, memoryText, byte(len(text)))
	return append(out, text...)
}

func remembered(userdata []byte) heldRule {
	var r heldRule
	for len(userdata) >= memoryHead {
		end := min(memoryHead+int(userdata[1]), len(userdata))
		switch value := string(userdata[memoryHead:end]); userdata[0] {
		case memoryHash:
			r.hash = value
		case memoryText:
			r.text = value
		}
		userdata = userdata[end:]
	}
	return r
}

// compiler makes expressions of the rules of one table.
type compiler struct {
	family datapath.Family
	sets   map[string]datapath.Set
	out    compiled
}

// compile makes a rule of a table.
func compile(t datapath.Table, rule []datapath.Statement) (compiled, error) {
	c := &compiler{family: t.Family, sets: map[string]datapath.Set{}, out: compiled{text: datapath.RuleText(t.Family, rule)}}
	for _, s := range t.Sets {
		c.sets[s.Name] = s
	}
	for _, s := range rule {
		if err := c.statement(s); err != nil {
			return compiled{}, fmt.Errorf("rule %q: %w", c.out.text, err)
		}
	}
	return c.out, nil
}

func (c *compiler) add(all ...expr.Any) {
	for _, e := range all {
		c.out.parts = append(c.out.parts, part{of: e})
	}
}

func (c *compiler) statement(s datapath.Statement) error {
	switch s := s.(type) {
	case datapath.In:
		return c.in(s)
	case datapath.Is:
		return c.is(s)
	case datapath.Word:
		return c.word(s)
	case datapath.Number:
		return c.number(s)
	case datapath.SYN:
		c.syn()
	case datapath.SetNumber:
		c.add(&expr.Immediate{Register: firstRegister, Data: native32(s.Number)})
		return c.setMark(s.Field)
	case datapath.Copy:
		if err := c.load(s.From, firstRegister); err != nil {
			return err
		}
		return c.setMark(s.To)
	case datapath.SetMapped:
		return c.setMapped(s)
	case datapath.SetPrefix:
		return c.setPrefix(s)
	case datapath.Count:
		c.add(&expr.Objref{Type: unix.NFT_OBJECT_COUNTER, Name: s.Name})
	case datapath.CountHere:
		c.add(&expr.Counter{})
	case datapath.Verdict:
		return c.verdict(s)
	case datapath.Reject:
		c.reject()
	case datapath.Untracked:
		c.add(&expr.Notrack{})
	case datapath.TranslateSource:
		return c.translateSource(s)
	case datapath.TranslateDestination:
		return c.translateDestination(s)
	case datapath.Masquerade:
		c.add(&expr.Masq{})
	case datapath.ClampMSS:
		c.clamp(s)
	default:
		return fmt.Errorf("%T cannot be told to the kernel", s)
	}
	return nil
}

// place is where in a packet a field is.
type place struct {
	base         expr.PayloadBase
	offset, size uint32
	// Where a checksum of 16 bits is to be mended when the field is written; pseudo is true if it is that of the layer above.
	checksum uint32
	pseudo   bool
}

// Lengths of headers, in bytes.
const (
	udpHeader      = 8
	vxlanHeader    = 8
	ethernetHeader = 14
	icmpHeader     = 8
)

func (c *compiler) place(f datapath.Field) (place, bool) {
	source, destination, size, checksum := uint32(12), uint32(16), uint32(4), uint32(10)
	if c.family == datapath.IPv6 {
		source, destination, size, checksum = 8, 24, 16, 0
	}
	quoted := func(offset uint32) place {
		p := place{expr.PayloadBaseTransportHeader, icmpHeader + offset, size, icmpHeader + checksum, false}
		if c.family == datapath.IPv6 {
			p.checksum = 2 // the quoted header has none, but that of the ICMP message counts it
		}
		return p
	}
	switch f {
	case datapath.Source:
		return place{expr.PayloadBaseNetworkHeader, source, size, checksum, true}, true
	case datapath.Destination:
		return place{expr.PayloadBaseNetworkHeader, destination, size, checksum, true}, true
	case datapath.QuotedSource:
		return quoted(source), true
	case datapath.QuotedDestination:
		return quoted(destination), true
	case datapath.InnerSource:
		return place{base: expr.PayloadBaseTransportHeader, offset: udpHeader + vxlanHeader + ethernetHeader + source, size: size}, true
	case datapath.SourcePort:
		return place{base: expr.PayloadBaseTransportHeader, size: 2}, true
	case datapath.DestinationPort:
		return place{base: expr.PayloadBaseTransportHeader, offset: 2, size: 2}, true
	case datapath.ICMPType:
		return place{base: expr.PayloadBaseTransportHeader, size: 1}, true
	}
	return place{}, false
}

// size is the length of what a field holds.
func (c *compiler) size(f datapath.Field) uint32 {
	if p, ok := c.place(f); ok {
		return p.size
	}
	switch {
	case f == datapath.L4Protocol:
		return 1
	case (f == datapath.OriginalSource || f == datapath.OriginalDestination) && c.family == datapath.IPv6:
		return 16
	}
	return 4
}

// load puts what a field holds into registers. A field that only some packets have is asked for first.
func (c *compiler) load(f datapath.Field, register uint32) error {
	if p, ok := c.place(f); ok {
		c.add(&expr.Payload{DestRegister: register, Base: p.base, Offset: p.offset, Len: p.size})
		return nil
	}
	six := uint32(0)
	if c.family == datapath.IPv6 {
		six = ctSourceIP6 - ctSourceIP
	}
	switch f {
	case datapath.L4Protocol:
		c.add(&expr.Meta{Key: expr.MetaKeyL4PROTO, Register: register})
	case datapath.OriginalSource:
		c.original(ctSourceIP+six, register)
	case datapath.OriginalDestination:
		c.original(ctDestinationIP+six, register)
	case datapath.SourceScope:
		c.add(&expr.Fib{Register: register, ResultADDRTYPE: true, FlagSADDR: true})
	case datapath.DestinationScope:
		c.add(&expr.Fib{Register: register, ResultADDRTYPE: true, FlagDADDR: true})
	case datapath.InputDevice:
		c.add(&expr.Meta{Key: expr.MetaKeyIIFNAME, Register: register})
	case datapath.OutputDevice:
		c.add(&expr.Meta{Key: expr.MetaKeyOIFNAME, Register: register})
	case datapath.Mark:
		c.add(&expr.Meta{Key: expr.MetaKeyMARK, Register: register})
	case datapath.FlowMark:
		c.add(&expr.Ct{Key: expr.CtKeyMARK, Register: register})
	case datapath.FlowState:
		c.add(&expr.Ct{Key: expr.CtKeySTATE, Register: register})
	case datapath.FlowStatus:
		c.add(&expr.Ct{Key: expr.CtKeySTATUS, Register: register})
	default:
		return fmt.Errorf("field %d cannot be read", f)
	}
	return nil
}

// original reads an address of a flow's first packet. The library sends no direction with these keys.
func (c *compiler) original(key, register uint32) {
	const firstPacket = 0
	c.out.parts = append(c.out.parts, part{raw: join(attr(unix.NFTA_EXPR_NAME, zeroEnded("ct")), nested(unix.NFTA_EXPR_DATA,
		attr(unix.NFTA_CT_KEY, big32(key)), attr(unix.NFTA_CT_DREG, big32(register)), attr(unix.NFTA_CT_DIRECTION, []byte{firstPacket})))})
}

// precede makes sure that a packet has the field at all, where other packets have other things in its place.
func (c *compiler) precede(f datapath.Field) {
	switch f {
	case datapath.QuotedSource, datapath.QuotedDestination, datapath.ICMPType:
		protocol := byte(datapath.ICMP)
		if c.family == datapath.IPv6 {
			protocol = datapath.ICMPv6
		}
		c.add(&expr.Meta{Key: expr.MetaKeyL4PROTO, Register: firstRegister}, equal([]byte{protocol}))
	case datapath.InnerSource:
		etherType := []byte{0x08, 0x00}
		if c.family == datapath.IPv6 {
			etherType = []byte{0x86, 0xdd}
		}
		const offset = udpHeader + vxlanHeader + ethernetHeader - 2
		c.add(&expr.Payload{DestRegister: firstRegister, Base: expr.PayloadBaseTransportHeader, Offset: offset, Len: 2}, equal(etherType))
	}
}

func equal(data []byte) *expr.Cmp {
	return &expr.Cmp{Op: expr.CmpOpEq, Register: firstRegister, Data: data}
}

func compare(not bool) expr.CmpOp {
	if not {
		return expr.CmpOpNeq
	}
	return expr.CmpOpEq
}

// loadAll concatenates fields.
func (c *compiler) loadAll(fields []datapath.Field) error {
	for _, f := range fields {
		c.precede(f)
	}
	register := uint32(firstRegister)
	for _, f := range fields {
		if err := c.load(f, register); err != nil {
			return err
		}
		register += (c.size(f) + 3) / 4
	}
	return nil
}

func (c *compiler) in(s datapath.In) error {
	if _, ok := c.sets[s.Set]; !ok {
		return fmt.Errorf("the table has no set %s", s.Set)
	}
	if err := c.loadAll(s.Fields); err != nil {
		return err
	}
	c.add(&expr.Lookup{SourceRegister: firstRegister, SetName: s.Set, Invert: s.Not})
	return nil
}

func (c *compiler) is(s datapath.Is) error {
	if err := c.loadAll([]datapath.Field{s.Field}); err != nil {
		return err
	}
	for _, v := range s.Values {
		if len(v.Low) != int(c.size(s.Field)) || len(v.High) != len(v.Low) {
			return fmt.Errorf("%s is no value of its field", v)
		}
	}
	switch {
	case len(s.Values) == 0:
		return fmt.Errorf("there is no value to compare with")
	case len(s.Values) > 1:
		return c.oneOf(s)
	}
	v := s.Values[0]
	if network, ok := networkMask(v); ok {
		if !v.Single() {
			c.add(&expr.Bitwise{SourceRegister: firstRegister, DestRegister: firstRegister, Len: uint32(len(network)), Mask: network, Xor: make([]byte, len(network))})
		}
		c.add(&expr.Cmp{Op: compare(s.Not), Register: firstRegister, Data: []byte(v.Low)})
		return nil
	}
	c.add(&expr.Range{Op: compare(s.Not), Register: firstRegister, FromData: []byte(v.Low), ToData: []byte(v.High)})
	return nil
}

// networkMask has the bits that are the same in all of a value; false if the value is not all that share them.
func networkMask(v datapath.Value) ([]byte, bool) {
	mask, open := []byte(v.Low), false
	for i := range mask {
		for bit := byte(0x80); bit != 0; bit >>= 1 {
			low, high := v.Low[i]&bit != 0, v.High[i]&bit != 0
			if open = open || low != high; open && (low || !high) {
				return nil, false
			}
			if mask[i] |= bit; open {
				mask[i] &^= bit
			}
		}
	}
	return mask, true
}

// oneOf looks a field up in a set without a name.
func (c *compiler) oneOf(s datapath.Is) error {
	set := datapath.Set{Key: []datapath.Type{s.Values[0].Type}}
	for _, v := range s.Values {
		set.Elements = append(set.Elements, datapath.Element{Key: []datapath.Value{v}})
	}
	form, err := formOf(c.family, set)
	if err != nil {
		return err
	}
	elements, err := flat(set)
	if err != nil {
		return err
	}
	c.lookup(anonymousSet{form: form, elements: elements}, s.Not)
	return nil
}

func (c *compiler) lookup(set anonymousSet, not bool) {
	set.form.flags |= unix.NFT_SET_ANONYMOUS | unix.NFT_SET_CONSTANT
	set.lookup = &expr.Lookup{SourceRegister: firstRegister, SetName: "__set%d", Invert: not}
	c.out.sets = append(c.out.sets, set)
	c.add(set.lookup)
}

// bits of words.
var flowStates = map[string]uint32{
	datapath.Invalid: expr.CtStateBitINVALID, datapath.Established: expr.CtStateBitESTABLISHED,
	datapath.Related: expr.CtStateBitRELATED, datapath.New: expr.CtStateBitNEW,
}

// destinationTranslated is the bit of a flow's status.
const destinationTranslated = 1 << 5

func (c *compiler) word(s datapath.Word) error {
	if err := c.load(s.Field, firstRegister); err != nil {
		return err
	}
	switch bits, isState := flowStates[s.Word]; {
	case s.Field == datapath.InputDevice || s.Field == datapath.OutputDevice:
		name := make([]byte, unix.IFNAMSIZ)
		if copy(name, s.Word); len(s.Word) >= unix.IFNAMSIZ || s.Word == "" {
			return fmt.Errorf("%q is no name of a device", s.Word)
		}
		c.add(&expr.Cmp{Op: compare(s.Not), Register: firstRegister, Data: name})
	case (s.Field == datapath.SourceScope || s.Field == datapath.DestinationScope) && s.Word == datapath.Local:
		c.add(&expr.Cmp{Op: compare(s.Not), Register: firstRegister, Data: native32(unix.RTN_LOCAL)})
	case s.Field == datapath.FlowState && isState:
		c.anyBit(native32(bits), s.Not)
	case s.Field == datapath.FlowStatus && s.Word == datapath.Translated:
		c.anyBit(native32(destinationTranslated), s.Not)
	default:
		return fmt.Errorf("%q is no word of its field", s.Word)
	}
	return nil
}

// anyBit matches if one of the bits is set, or if none is.
func (c *compiler) anyBit(bits []byte, not bool) {
	zero := make([]byte, len(bits))
	c.add(&expr.Bitwise{SourceRegister: firstRegister, DestRegister: firstRegister, Len: uint32(len(bits)), Mask: bits, Xor: zero},
		&expr.Cmp{Op: compare(!not), Register: firstRegister, Data: zero})
}

func (c *compiler) number(s datapath.Number) error {
	if err := c.loadAll([]datapath.Field{s.Field}); err != nil {
		return err
	}
	var values []string
	form := setForm{keyLen: 4}
	for _, n := range s.Numbers {
		switch {
		case s.Field == datapath.Mark || s.Field == datapath.FlowMark:
			form.keyType = 19
			values = append(values, string(native32(n)))
		case s.Field == datapath.ICMPType && n <= math.MaxUint8:
			if form.keyType, form.keyLen = 14, 1; c.family == datapath.IPv6 {
				form.keyType = 29
			}
			values = append(values, string([]byte{byte(n)}))
		default:
			return fmt.Errorf("%d is no number of its field", n)
		}
	}
	switch len(values) {
	case 0:
		return fmt.Errorf("there is no number to compare with")
	case 1:
		c.add(&expr.Cmp{Op: compare(s.Not), Register: firstRegister, Data: []byte(values[0])})
	default:
		elements := map[interval]string{}
		for _, v := range values {
			elements[interval{v, v}] = ""
		}
		c.lookup(anonymousSet{form: form, elements: elements, host: form.keyLen == 4}, s.Not)
	}
	return nil
}

func (c *compiler) tcp() {
	c.add(&expr.Meta{Key: expr.MetaKeyL4PROTO, Register: firstRegister}, equal([]byte{datapath.TCP}))
}

func (c *compiler) syn() {
	const flagsOffset, syn = 13, 2
	c.tcp()
	c.add(&expr.Payload{DestRegister: firstRegister, Base: expr.PayloadBaseTransportHeader, Offset: flagsOffset, Len: 1})
	c.anyBit([]byte{syn}, false)
}

func (c *compiler) setMark(f datapath.Field) error {
	switch f {
	case datapath.Mark:
		c.add(&expr.Meta{Key: expr.MetaKeyMARK, SourceRegister: true, Register: firstRegister})
	case datapath.FlowMark:
		c.add(&expr.Ct{Key: expr.CtKeyMARK, SourceRegister: true, Register: firstRegister})
	default:
		return fmt.Errorf("field %d is no mark", f)
	}
	return nil
}

// store writes registers into a packet, and mends checksums.
func (c *compiler) store(p place) {
	if p.checksum != 0 {
		e := &expr.Payload{
			OperationType: expr.PayloadWrite, SourceRegister: firstRegister, Base: p.base, Offset: p.offset, Len: p.size,
			CsumType: expr.CsumTypeInet, CsumOffset: p.checksum,
		}
		if p.pseudo {
			e.CsumFlags = unix.NFT_PAYLOAD_L4CSUM_PSEUDOHDR
		}
		c.add(e)
		return
	}
	// A header of IPv6 has no checksum of its own, only the layer above counts its addresses. The library cannot say that.
	c.out.parts = append(c.out.parts, part{raw: join(attr(unix.NFTA_EXPR_NAME, zeroEnded("payload")), nested(unix.NFTA_EXPR_DATA,
		attr(unix.NFTA_PAYLOAD_SREG, big32(uint32(firstRegister))), attr(unix.NFTA_PAYLOAD_BASE, big32(uint32(p.base))),
		attr(unix.NFTA_PAYLOAD_OFFSET, big32(p.offset)), attr(unix.NFTA_PAYLOAD_LEN, big32(p.size)),
		attr(unix.NFTA_PAYLOAD_CSUM_TYPE, big32(uint32(unix.NFT_PAYLOAD_CSUM_NONE))), attr(unix.NFTA_PAYLOAD_CSUM_OFFSET, big32(uint32(0))),
		attr(unix.NFTA_PAYLOAD_CSUM_FLAGS, big32(uint32(unix.NFT_PAYLOAD_L4CSUM_PSEUDOHDR)))))})
}

// writable is the place of an address that may be written.
func (c *compiler) writable(f datapath.Field) (place, error) {
	switch f {
	case datapath.Source, datapath.Destination, datapath.QuotedSource, datapath.QuotedDestination:
		p, _ := c.place(f)
		c.precede(f)
		return p, nil
	}
	return place{}, fmt.Errorf("field %d cannot be written", f)
}

func (c *compiler) setMapped(s datapath.SetMapped) error {
	if m, ok := c.sets[s.Map]; !ok || !slices.Equal(m.Value, []datapath.Type{datapath.TypeAddress}) {
		return fmt.Errorf("the table has no map %s to addresses", s.Map)
	}
	p, err := c.writable(s.Field)
	if err != nil {
		return err
	}
	if err := c.load(s.Field, firstRegister); err != nil {
		return err
	}
	c.add(&expr.Lookup{SourceRegister: firstRegister, DestRegister: firstRegister, IsDestRegSet: true, SetName: s.Map})
	c.store(p)
	return nil
}

func (c *compiler) setPrefix(s datapath.SetPrefix) error {
	if datapath.FamilyOf(s.Prefix.Addr()) != c.family {
		return fmt.Errorf("%s is not of the table's family", s.Prefix)
	}
	p, err := c.writable(s.Field)
	if err != nil {
		return err
	}
	address := s.Prefix.Masked().Addr().AsSlice()
	if s.Prefix.IsSingleIP() {
		c.add(&expr.Immediate{Register: firstRegister, Data: address})
		c.store(p)
		return nil
	}
	if err := c.load(s.Field, firstRegister); err != nil {
		return err
	}
	c.add(&expr.Bitwise{SourceRegister: firstRegister, DestRegister: firstRegister, Len: p.size, Mask: hostMask(s.Prefix), Xor: address})
	c.store(p)
	return nil
}

// hostMask has the bits that a prefix leaves open.
func hostMask(p netip.Prefix) []byte {
	v := datapath.Prefix(p)
	mask := []byte(v.High)
	for i := range mask {
		mask[i] ^= v.Low[i]
	}
	return mask
}

var verdicts = map[datapath.VerdictKind]expr.VerdictKind{
	datapath.Accept: expr.VerdictAccept, datapath.Drop: expr.VerdictDrop, datapath.Return: expr.VerdictReturn,
	datapath.Jump: expr.VerdictJump, datapath.GoTo: expr.VerdictGoto,
}

func (c *compiler) verdict(s datapath.Verdict) error {
	kind, ok := verdicts[s.Kind]
	if !ok || (s.Chain != "") != (s.Kind == datapath.Jump || s.Kind == datapath.GoTo) {
		return fmt.Errorf("%q is no verdict", s.Kind)
	}
	c.add(&expr.Verdict{Kind: kind, Chain: s.Chain})
	return nil
}

func (c *compiler) reject() {
	// Network unreachable is 0 in both families.
	c.add(&expr.Reject{Type: unix.NFT_REJECT_ICMP_UNREACH, Code: 0})
}

func (c *compiler) translateSource(s datapath.TranslateSource) error {
	if s.Identity {
		if err := c.load(datapath.Source, firstRegister); err != nil {
			return err
		}
		c.add(c.nat(expr.NATTypeSourceNAT))
		return nil
	}
	return c.translate(expr.NATTypeSourceNAT, s.To)
}

func (c *compiler) nat(kind expr.NATType) *expr.NAT {
	return &expr.NAT{Type: kind, Family: uint32(protocolFamily(c.family)), RegAddrMin: firstRegister}
}

// translate gives one address, or a prefix that keeps the host bits.
func (c *compiler) translate(kind expr.NATType, to netip.Prefix) error {
	if !to.IsValid() || datapath.FamilyOf(to.Addr()) != c.family {
		return fmt.Errorf("%s is not of the table's family", to)
	}
	v, n := datapath.Prefix(to), c.nat(kind)
	c.add(&expr.Immediate{Register: firstRegister, Data: []byte(v.Low)})
	if !v.Single() {
		n.RegAddrMax, n.Prefix = firstRegister+c.size(datapath.Source)/4, true
		c.add(&expr.Immediate{Register: n.RegAddrMax, Data: []byte(v.High)})
	}
	c.add(n)
	return nil
}

func (c *compiler) translateDestination(s datapath.TranslateDestination) error {
	if s.Map == "" {
		return c.translate(expr.NATTypeDestNAT, s.To)
	}
	m, ok := c.sets[s.Map]
	if !ok || len(m.Value) == 0 || m.Value[0] != datapath.TypeAddress || len(m.Value) > 2 || len(m.Value) == 2 && m.Value[1] != datapath.TypePort {
		return fmt.Errorf("the table has no map %s to addresses, or to addresses and ports", s.Map)
	}
	if err := c.loadAll(s.Key); err != nil {
		return err
	}
	c.add(&expr.Lookup{SourceRegister: firstRegister, DestRegister: firstRegister, IsDestRegSet: true, SetName: s.Map})
	n := c.nat(expr.NATTypeDestNAT)
	if len(m.Value) == 2 {
		n.RegProtoMin = firstRegister + c.size(datapath.Destination)/4
	}
	c.add(n)
	return nil
}

// clamp changes the option only where it asks for more: the kernel sees to that.
func (c *compiler) clamp(s datapath.ClampMSS) {
	const maximumSegmentSize, valueOffset, valueSize = 2, 2, 2
	if s.Size == 0 {
		c.add(&expr.Rt{Register: firstRegister, Key: expr.RtTCPMSS},
			&expr.Byteorder{SourceRegister: firstRegister, DestRegister: firstRegister, Op: expr.ByteorderHton, Len: valueSize, Size: valueSize})
	} else {
		c.add(&expr.Immediate{Register: firstRegister, Data: binary.BigEndian.AppendUint16(nil, s.Size)})
	}
	c.add(&expr.Exthdr{SourceRegister: firstRegister, Type: maximumSegmentSize, Offset: valueOffset, Len: valueSize, Op: expr.ExthdrOpTcpopt})
}
