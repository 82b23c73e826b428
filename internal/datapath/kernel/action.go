// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"slices"

	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"

	"liqo.io/liqo/internal/datapath"
)

func (c *compiler) setMark(f datapath.Field) error {
	switch f {
	case datapath.Mark:
		c.addExprs(&expr.Meta{Key: expr.MetaKeyMARK, SourceRegister: true, Register: firstRegister})
	case datapath.FlowMark:
		c.addExprs(&expr.Ct{Key: expr.CtKeyMARK, SourceRegister: true, Register: firstRegister})
	default:
		return fmt.Errorf("field %d is not a mark", f)
	}
	return nil
}

// storeRegister writes registers into a packet and updates the checksum.
func (c *compiler) storeRegister(p fieldPlace) {
	if p.checksum != 0 {
		e := &expr.Payload{
			OperationType: expr.PayloadWrite, SourceRegister: firstRegister, Base: p.base, Offset: p.offset, Len: p.size,
			CsumType: expr.CsumTypeInet, CsumOffset: p.checksum,
		}
		if p.pseudo {
			e.CsumFlags = unix.NFT_PAYLOAD_L4CSUM_PSEUDOHDR
		}
		c.addExprs(e)
		return
	}
	// An IPv6 header has no checksum, only the pseudo-header of the layer above covers its addresses. The nftables library cannot encode this.
	c.out.parts = append(c.out.parts, encodedExpr{raw: joinBytes(encodeAttr(unix.NFTA_EXPR_NAME, zeroEnded("payload")), encodeNested(unix.NFTA_EXPR_DATA,
		encodeAttr(unix.NFTA_PAYLOAD_SREG, bigUint32(uint32(firstRegister))), encodeAttr(unix.NFTA_PAYLOAD_BASE, bigUint32(uint32(p.base))),
		encodeAttr(unix.NFTA_PAYLOAD_OFFSET, bigUint32(p.offset)), encodeAttr(unix.NFTA_PAYLOAD_LEN, bigUint32(p.size)),
		encodeAttr(unix.NFTA_PAYLOAD_CSUM_TYPE, bigUint32(uint32(unix.NFT_PAYLOAD_CSUM_NONE))), encodeAttr(unix.NFTA_PAYLOAD_CSUM_OFFSET, bigUint32(uint32(0))),
		encodeAttr(unix.NFTA_PAYLOAD_CSUM_FLAGS, bigUint32(uint32(unix.NFT_PAYLOAD_L4CSUM_PSEUDOHDR)))))})
}

// writableField returns the place of an address field that may be written.
func (c *compiler) writableField(f datapath.Field) (fieldPlace, error) {
	switch f {
	case datapath.Source, datapath.Destination, datapath.QuotedSource, datapath.QuotedDestination:
		p, _ := c.placeOf(f)
		c.addPrecondition(f)
		return p, nil
	}
	return fieldPlace{}, fmt.Errorf("field %d cannot be written", f)
}

func (c *compiler) setMapped(s datapath.SetMapped) error {
	if m, ok := c.sets[s.Map]; !ok || !slices.Equal(m.Value, []datapath.Type{datapath.TypeAddress}) {
		return fmt.Errorf("the table has no map %s to addresses", s.Map)
	}
	p, err := c.writableField(s.Field)
	if err != nil {
		return err
	}
	if err := c.loadField(s.Field, firstRegister); err != nil {
		return err
	}
	c.addExprs(&expr.Lookup{SourceRegister: firstRegister, DestRegister: firstRegister, IsDestRegSet: true, SetName: s.Map})
	c.storeRegister(p)
	return nil
}

func (c *compiler) setPrefix(s datapath.SetPrefix) error {
	if datapath.FamilyOf(s.Prefix.Addr()) != c.family {
		return fmt.Errorf("%s is not of the table's family", s.Prefix)
	}
	p, err := c.writableField(s.Field)
	if err != nil {
		return err
	}
	address := s.Prefix.Masked().Addr().AsSlice()
	if s.Prefix.IsSingleIP() {
		c.addExprs(&expr.Immediate{Register: firstRegister, Data: address})
		c.storeRegister(p)
		return nil
	}
	if err := c.loadField(s.Field, firstRegister); err != nil {
		return err
	}
	c.addExprs(&expr.Bitwise{SourceRegister: firstRegister, DestRegister: firstRegister, Len: p.size, Mask: hostMask(s.Prefix), Xor: address})
	c.storeRegister(p)
	return nil
}

// hostMask returns the mask of the host bits of a prefix.
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

func (c *compiler) compileVerdict(s datapath.Verdict) error {
	kind, ok := verdicts[s.Kind]
	if !ok || (s.Chain != "") != (s.Kind == datapath.Jump || s.Kind == datapath.GoTo) {
		return fmt.Errorf("unknown verdict %q", s.Kind)
	}
	c.addExprs(&expr.Verdict{Kind: kind, Chain: s.Chain})
	return nil
}

func (c *compiler) compileReject() {
	// Code 0 is network unreachable in both families.
	c.addExprs(&expr.Reject{Type: unix.NFT_REJECT_ICMP_UNREACH, Code: 0})
}

func (c *compiler) translateSource(s datapath.TranslateSource) error {
	if s.Identity {
		if err := c.loadField(datapath.Source, firstRegister); err != nil {
			return err
		}
		c.addExprs(c.newNAT(expr.NATTypeSourceNAT))
		return nil
	}
	return c.compileNAT(expr.NATTypeSourceNAT, s.To)
}

func (c *compiler) newNAT(kind expr.NATType) *expr.NAT {
	return &expr.NAT{Type: kind, Family: uint32(protocolFamily(c.family)), RegAddrMin: firstRegister}
}

// compileNAT translates to one address, or to a prefix with the host bits kept.
func (c *compiler) compileNAT(kind expr.NATType, to netip.Prefix) error {
	if !to.IsValid() || datapath.FamilyOf(to.Addr()) != c.family {
		return fmt.Errorf("%s is not of the table's family", to)
	}
	v, n := datapath.Prefix(to), c.newNAT(kind)
	c.addExprs(&expr.Immediate{Register: firstRegister, Data: []byte(v.Low)})
	if !v.Single() {
		n.RegAddrMax, n.Prefix = firstRegister+c.fieldSize(datapath.Source)/4, true
		c.addExprs(&expr.Immediate{Register: n.RegAddrMax, Data: []byte(v.High)})
	}
	c.addExprs(n)
	return nil
}

func (c *compiler) translateDestination(s datapath.TranslateDestination) error {
	if s.Map == "" {
		return c.compileNAT(expr.NATTypeDestNAT, s.To)
	}
	m, ok := c.sets[s.Map]
	if !ok || len(m.Value) == 0 || m.Value[0] != datapath.TypeAddress || len(m.Value) > 2 || len(m.Value) == 2 && m.Value[1] != datapath.TypePort {
		return fmt.Errorf("the table has no map %s to addresses, or to addresses and ports", s.Map)
	}
	if err := c.loadAll(s.Key); err != nil {
		return err
	}
	c.addExprs(&expr.Lookup{SourceRegister: firstRegister, DestRegister: firstRegister, IsDestRegSet: true, SetName: s.Map})
	n := c.newNAT(expr.NATTypeDestNAT)
	if len(m.Value) == 2 {
		n.RegProtoMin = firstRegister + c.fieldSize(datapath.Destination)/4
	}
	c.addExprs(n)
	return nil
}

// compileClampMSS lowers the option only: the kernel never raises the MSS.
func (c *compiler) compileClampMSS(s datapath.ClampMSS) {
	const maximumSegmentSize, valueOffset, valueSize = 2, 2, 2
	if s.Size == 0 {
		c.addExprs(&expr.Rt{Register: firstRegister, Key: expr.RtTCPMSS},
			&expr.Byteorder{SourceRegister: firstRegister, DestRegister: firstRegister, Op: expr.ByteorderHton, Len: valueSize, Size: valueSize})
	} else {
		c.addExprs(&expr.Immediate{Register: firstRegister, Data: binary.BigEndian.AppendUint16(nil, s.Size)})
	}
	c.addExprs(&expr.Exthdr{SourceRegister: firstRegister, Type: maximumSegmentSize, Offset: valueOffset, Len: valueSize, Op: expr.ExthdrOpTcpopt})
}
