// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"fmt"
	"math"

	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"

	"liqo.io/liqo/internal/datapath"
)

func newEqual(data []byte) *expr.Cmp {
	return &expr.Cmp{Op: expr.CmpOpEq, Register: firstRegister, Data: data}
}

func compareOp(not bool) expr.CmpOp {
	if not {
		return expr.CmpOpNeq
	}
	return expr.CmpOpEq
}

// loadAll loads several fields into consecutive registers: a concatenation.
func (c *compiler) loadAll(fields []datapath.Field) error {
	for _, f := range fields {
		c.addPrecondition(f)
	}
	register := uint32(firstRegister)
	for _, f := range fields {
		if err := c.loadField(f, register); err != nil {
			return err
		}
		register += (c.fieldSize(f) + 3) / 4
	}
	return nil
}

func (c *compiler) compileLookup(s datapath.Lookup) error {
	if _, ok := c.sets[s.Set]; !ok {
		return fmt.Errorf("the table has no set %s", s.Set)
	}
	if err := c.loadAll(s.Fields); err != nil {
		return err
	}
	c.addExprs(&expr.Lookup{SourceRegister: firstRegister, SetName: s.Set, Invert: s.Not})
	return nil
}

func (c *compiler) compileCmp(s datapath.Cmp) error {
	if err := c.loadAll([]datapath.Field{s.Field}); err != nil {
		return err
	}
	for _, v := range s.Values {
		if len(v.Low) != int(c.fieldSize(s.Field)) || len(v.High) != len(v.Low) {
			return fmt.Errorf("%s is not a value of its field", v)
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
			c.addExprs(&expr.Bitwise{SourceRegister: firstRegister, DestRegister: firstRegister, Len: uint32(len(network)), Mask: network, Xor: make([]byte, len(network))})
		}
		c.addExprs(&expr.Cmp{Op: compareOp(s.Not), Register: firstRegister, Data: []byte(v.Low)})
		return nil
	}
	c.addExprs(&expr.Range{Op: compareOp(s.Not), Register: firstRegister, FromData: []byte(v.Low), ToData: []byte(v.High)})
	return nil
}

// networkMask returns the mask of the bits common to the whole range, and false if the range is not a prefix.
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

// oneOf looks a field up in an anonymous set.
func (c *compiler) oneOf(s datapath.Cmp) error {
	set := datapath.Set{Key: []datapath.Type{s.Values[0].Type}}
	for _, v := range s.Values {
		set.Elements = append(set.Elements, datapath.Element{Key: []datapath.Value{v}})
	}
	form, err := formOf(c.family, set)
	if err != nil {
		return err
	}
	elements, err := flattenElements(set)
	if err != nil {
		return err
	}
	c.addLookup(anonymousSet{form: form, elements: elements}, s.Not)
	return nil
}

func (c *compiler) addLookup(set anonymousSet, not bool) {
	set.form.flags |= unix.NFT_SET_ANONYMOUS | unix.NFT_SET_CONSTANT
	set.lookup = &expr.Lookup{SourceRegister: firstRegister, SetName: "__set%d", Invert: not}
	c.out.sets = append(c.out.sets, set)
	c.addExprs(set.lookup)
}

// flowStates maps symbolic values to bits of ct state.
var flowStates = map[string]uint32{
	datapath.Invalid: expr.CtStateBitINVALID, datapath.Established: expr.CtStateBitESTABLISHED,
	datapath.Related: expr.CtStateBitRELATED, datapath.New: expr.CtStateBitNEW,
}

// destinationTranslated is the DNAT bit of ct status.
const destinationTranslated = 1 << 5

func (c *compiler) compileWord(s datapath.Word) error {
	if err := c.loadField(s.Field, firstRegister); err != nil {
		return err
	}
	switch bits, isState := flowStates[s.Word]; {
	case s.Field == datapath.InputDevice || s.Field == datapath.OutputDevice:
		name := make([]byte, unix.IFNAMSIZ)
		if copy(name, s.Word); len(s.Word) >= unix.IFNAMSIZ || s.Word == "" {
			return fmt.Errorf("invalid device name %q", s.Word)
		}
		c.addExprs(&expr.Cmp{Op: compareOp(s.Not), Register: firstRegister, Data: name})
	case (s.Field == datapath.SourceScope || s.Field == datapath.DestinationScope) && s.Word == datapath.Local:
		c.addExprs(&expr.Cmp{Op: compareOp(s.Not), Register: firstRegister, Data: nativeUint32(unix.RTN_LOCAL)})
	case s.Field == datapath.FlowState && isState:
		c.anyBit(nativeUint32(bits), s.Not)
	case s.Field == datapath.FlowStatus && s.Word == datapath.Translated:
		c.anyBit(nativeUint32(destinationTranslated), s.Not)
	default:
		return fmt.Errorf("unknown value %q of its field", s.Word)
	}
	return nil
}

// anyBit matches if any of the bits is set; with not, if none is set.
func (c *compiler) anyBit(bits []byte, not bool) {
	zero := make([]byte, len(bits))
	c.addExprs(&expr.Bitwise{SourceRegister: firstRegister, DestRegister: firstRegister, Len: uint32(len(bits)), Mask: bits, Xor: zero},
		&expr.Cmp{Op: compareOp(!not), Register: firstRegister, Data: zero})
}

func (c *compiler) compileNumber(s datapath.Number) error {
	if err := c.loadAll([]datapath.Field{s.Field}); err != nil {
		return err
	}
	var values []string
	form := setForm{keyLen: 4}
	for _, n := range s.Numbers {
		switch {
		case s.Field == datapath.Mark || s.Field == datapath.FlowMark:
			form.keyType = 19
			values = append(values, string(nativeUint32(n)))
		case s.Field == datapath.ICMPType && n <= math.MaxUint8:
			if form.keyType, form.keyLen = 14, 1; c.family == datapath.IPv6 {
				form.keyType = 29
			}
			values = append(values, string([]byte{byte(n)}))
		default:
			return fmt.Errorf("number %d is out of range for its field", n)
		}
	}
	switch len(values) {
	case 0:
		return fmt.Errorf("there is no number to compare with")
	case 1:
		c.addExprs(&expr.Cmp{Op: compareOp(s.Not), Register: firstRegister, Data: []byte(values[0])})
	default:
		elements := map[interval]string{}
		for _, v := range values {
			elements[interval{v, v}] = ""
		}
		c.addLookup(anonymousSet{form: form, elements: elements, host: form.keyLen == 4}, s.Not)
	}
	return nil
}

func (c *compiler) matchTCP() {
	c.addExprs(&expr.Meta{Key: expr.MetaKeyL4PROTO, Register: firstRegister}, newEqual([]byte{datapath.TCP}))
}

func (c *compiler) matchSYN() {
	const flagsOffset, syn = 13, 2
	c.matchTCP()
	c.addExprs(&expr.Payload{DestRegister: firstRegister, Base: expr.PayloadBaseTransportHeader, Offset: flagsOffset, Len: 1})
	c.anyBit([]byte{syn}, false)
}
