// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"fmt"

	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"

	"liqo.io/liqo/internal/datapath"
)

// Keys of the connection-tracking expression that are of one family, as the kernel wants them since 4.17.
const (
	ctSourceIP      = 19
	ctDestinationIP = 20
	ctSourceIP6     = 21
)

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

// header is where things are in the header of a family.
type header struct{ source, destination, size, checksum uint32 }

func headerOf(f datapath.Family) header {
	if f == datapath.IPv4 {
		return header{source: 12, destination: 16, size: 4, checksum: 10}
	}
	return header{source: 8, destination: 24, size: 16}
}

func (c *compiler) place(f datapath.Field) (place, bool) {
	h := headerOf(c.family)
	quoted := func(offset uint32) place {
		p := place{expr.PayloadBaseTransportHeader, icmpHeader + offset, h.size, icmpHeader + h.checksum, false}
		if c.family == datapath.IPv6 {
			p.checksum = 2 // the quoted header has none, but that of the ICMP message counts it
		}
		return p
	}
	inner := func(h header) place {
		return place{base: expr.PayloadBaseTransportHeader, offset: udpHeader + vxlanHeader + ethernetHeader + h.source, size: h.size}
	}
	switch f {
	case datapath.Source:
		return place{expr.PayloadBaseNetworkHeader, h.source, h.size, h.checksum, true}, true
	case datapath.Destination:
		return place{expr.PayloadBaseNetworkHeader, h.destination, h.size, h.checksum, true}, true
	case datapath.QuotedSource:
		return quoted(h.source), true
	case datapath.QuotedDestination:
		return quoted(h.destination), true
	case datapath.InnerSource:
		return inner(h), true
	case datapath.OtherInnerSource:
		return inner(headerOf(other(c.family))), true
	case datapath.SourcePort:
		return place{base: expr.PayloadBaseTransportHeader, size: 2}, true
	case datapath.DestinationPort:
		return place{base: expr.PayloadBaseTransportHeader, offset: 2, size: 2}, true
	case datapath.ICMPType:
		return place{base: expr.PayloadBaseTransportHeader, size: 1}, true
	}
	return place{}, false
}

func other(f datapath.Family) datapath.Family {
	if f == datapath.IPv4 {
		return datapath.IPv6
	}
	return datapath.IPv4
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
	case datapath.InnerSource, datapath.OtherInnerSource:
		family := c.family
		if f == datapath.OtherInnerSource {
			family = other(family)
		}
		etherType := []byte{0x08, 0x00}
		if family == datapath.IPv6 {
			etherType = []byte{0x86, 0xdd}
		}
		const offset = udpHeader + vxlanHeader + ethernetHeader - 2
		c.add(&expr.Payload{DestRegister: firstRegister, Base: expr.PayloadBaseTransportHeader, Offset: offset, Len: 2}, equal(etherType))
	}
}
