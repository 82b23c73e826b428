// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"fmt"

	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"

	"liqo.io/liqo/internal/datapath"
)

// Keys of the ct expression with a fixed address family, since Linux 4.17.
const (
	ctSourceIP      = 19
	ctDestinationIP = 20
	ctSourceIP6     = 21
)

// fieldPlace is the position of a field in a packet.
type fieldPlace struct {
	base         expr.PayloadBase
	offset, size uint32
	// checksum is the offset of the 16-bit checksum to update when the field is written; pseudo is true for a checksum of the layer above,
	// over the pseudo-header.
	checksum uint32
	pseudo   bool
}

// Header lengths in bytes.
const (
	udpHeader      = 8
	vxlanHeader    = 8
	ethernetHeader = 14
	icmpHeader     = 8
)

// ipHeader holds the field offsets and the address size of an IP header.
type ipHeader struct{ source, destination, size, checksum uint32 }

func headerOf(f datapath.Family) ipHeader {
	if f == datapath.IPv4 {
		return ipHeader{source: 12, destination: 16, size: 4, checksum: 10}
	}
	return ipHeader{source: 8, destination: 24, size: 16}
}

func (c *compiler) placeOf(f datapath.Field) (fieldPlace, bool) {
	h := headerOf(c.family)
	quoted := func(offset uint32) fieldPlace {
		p := fieldPlace{expr.PayloadBaseTransportHeader, icmpHeader + offset, h.size, icmpHeader + h.checksum, false}
		if c.family == datapath.IPv6 {
			p.checksum = 2 // the quoted IPv6 header has no checksum, but the ICMPv6 checksum covers it
		}
		return p
	}
	inner := func(h ipHeader) fieldPlace {
		return fieldPlace{base: expr.PayloadBaseTransportHeader, offset: udpHeader + vxlanHeader + ethernetHeader + h.source, size: h.size}
	}
	switch f {
	case datapath.Source:
		return fieldPlace{expr.PayloadBaseNetworkHeader, h.source, h.size, h.checksum, true}, true
	case datapath.Destination:
		return fieldPlace{expr.PayloadBaseNetworkHeader, h.destination, h.size, h.checksum, true}, true
	case datapath.QuotedSource:
		return quoted(h.source), true
	case datapath.QuotedDestination:
		return quoted(h.destination), true
	case datapath.InnerSource:
		return inner(h), true
	case datapath.OtherInnerSource:
		return inner(headerOf(otherFamily(c.family))), true
	case datapath.SourcePort:
		return fieldPlace{base: expr.PayloadBaseTransportHeader, size: 2}, true
	case datapath.DestinationPort:
		return fieldPlace{base: expr.PayloadBaseTransportHeader, offset: 2, size: 2}, true
	case datapath.ICMPType:
		return fieldPlace{base: expr.PayloadBaseTransportHeader, size: 1}, true
	}
	return fieldPlace{}, false
}

func otherFamily(f datapath.Family) datapath.Family {
	if f == datapath.IPv4 {
		return datapath.IPv6
	}
	return datapath.IPv4
}

// fieldSize returns the length of a field in bytes.
func (c *compiler) fieldSize(f datapath.Field) uint32 {
	if p, ok := c.placeOf(f); ok {
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

// loadField loads a field into registers, after a check that the packet has the field.
func (c *compiler) loadField(f datapath.Field, register uint32) error {
	if p, ok := c.placeOf(f); ok {
		c.addExprs(&expr.Payload{DestRegister: register, Base: p.base, Offset: p.offset, Len: p.size})
		return nil
	}
	six := uint32(0)
	if c.family == datapath.IPv6 {
		six = ctSourceIP6 - ctSourceIP
	}
	switch f {
	case datapath.L4Protocol:
		c.addExprs(&expr.Meta{Key: expr.MetaKeyL4PROTO, Register: register})
	case datapath.OriginalSource:
		c.loadOriginal(ctSourceIP+six, register)
	case datapath.OriginalDestination:
		c.loadOriginal(ctDestinationIP+six, register)
	case datapath.SourceScope:
		c.addExprs(&expr.Fib{Register: register, ResultADDRTYPE: true, FlagSADDR: true})
	case datapath.DestinationScope:
		c.addExprs(&expr.Fib{Register: register, ResultADDRTYPE: true, FlagDADDR: true})
	case datapath.InputDevice:
		c.addExprs(&expr.Meta{Key: expr.MetaKeyIIFNAME, Register: register})
	case datapath.OutputDevice:
		c.addExprs(&expr.Meta{Key: expr.MetaKeyOIFNAME, Register: register})
	case datapath.Mark:
		c.addExprs(&expr.Meta{Key: expr.MetaKeyMARK, Register: register})
	case datapath.FlowMark:
		c.addExprs(&expr.Ct{Key: expr.CtKeyMARK, Register: register})
	case datapath.FlowState:
		c.addExprs(&expr.Ct{Key: expr.CtKeySTATE, Register: register})
	case datapath.FlowStatus:
		c.addExprs(&expr.Ct{Key: expr.CtKeySTATUS, Register: register})
	default:
		return fmt.Errorf("field %d cannot be read", f)
	}
	return nil
}

// loadOriginal loads an address of the original direction of the conntrack entry. The nftables library sends no direction with these keys.
func (c *compiler) loadOriginal(key, register uint32) {
	const firstPacket = 0
	c.out.parts = append(c.out.parts, encodedExpr{raw: joinBytes(encodeAttr(unix.NFTA_EXPR_NAME, zeroEnded("ct")), encodeNested(unix.NFTA_EXPR_DATA,
		encodeAttr(unix.NFTA_CT_KEY, bigUint32(key)), encodeAttr(unix.NFTA_CT_DREG, bigUint32(register)), encodeAttr(unix.NFTA_CT_DIRECTION, []byte{firstPacket})))})
}

// addPrecondition checks that the packet has the field, because packets without the field hold unrelated bytes at the same offset.
func (c *compiler) addPrecondition(f datapath.Field) {
	switch f {
	case datapath.QuotedSource, datapath.QuotedDestination, datapath.ICMPType:
		protocol := byte(datapath.ICMP)
		if c.family == datapath.IPv6 {
			protocol = datapath.ICMPv6
		}
		c.addExprs(&expr.Meta{Key: expr.MetaKeyL4PROTO, Register: firstRegister}, newEqual([]byte{protocol}))
	case datapath.InnerSource, datapath.OtherInnerSource:
		family := c.family
		if f == datapath.OtherInnerSource {
			family = otherFamily(family)
		}
		etherType := []byte{0x08, 0x00}
		if family == datapath.IPv6 {
			etherType = []byte{0x86, 0xdd}
		}
		const offset = udpHeader + vxlanHeader + ethernetHeader - 2
		c.addExprs(&expr.Payload{DestRegister: firstRegister, Base: expr.PayloadBaseTransportHeader, Offset: offset, Len: 2}, newEqual(etherType))
	}
}
