// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"liqo.io/liqo/internal/datapath"
)

// setConcat is the flag of sets with concatenated keys, elemKeyEnd the attribute of the end of an element's key. Both are missing in x/sys.
const (
	setConcat  = 0x80
	elemKeyEnd = 10
)

// typeInfo is a data type of the kernel and nft.
type typeInfo struct{ magic, size uint32 }

// Numbers of data types in nft.
const (
	magicIPv4     = 7
	magicIPv6     = 8
	magicProtocol = 12
	magicPort     = 13
)

func typeOf(f datapath.Family, t datapath.Type) (typeInfo, error) {
	own, other := typeInfo{magicIPv4, 4}, typeInfo{magicIPv6, 16}
	if f == datapath.IPv6 {
		own, other = other, own
	}
	switch t {
	case datapath.TypeAddress:
		return own, nil
	case datapath.TypeOtherAddress:
		return other, nil
	case datapath.TypePort:
		return typeInfo{magicPort, 2}, nil
	case datapath.TypeProtocol:
		return typeInfo{magicProtocol, 1}, nil
	}
	return typeInfo{}, fmt.Errorf("type %d is none of values", t)
}

// magicBits is the size in bits of one type in the number of a concatenated type.
const magicBits = 6

// typesOf returns the data types of a set from the type number of nft.
func typesOf(f datapath.Family, magic uint32) []datapath.Type {
	var out []datapath.Type
	for ; magic != 0; magic >>= magicBits {
		for _, t := range []datapath.Type{datapath.TypeAddress, datapath.TypeOtherAddress, datapath.TypePort, datapath.TypeProtocol} {
			if info, _ := typeOf(f, t); info.magic == magic&(1<<magicBits-1) {
				out = append(out, t)
			}
		}
	}
	slices.Reverse(out)
	return out
}

// concatenatedType returns the type of concatenated values, each padded to 4-byte registers.
func concatenatedType(f datapath.Family, types []datapath.Type) (typeInfo, error) {
	var out typeInfo
	for _, t := range types {
		one, err := typeOf(f, t)
		if err != nil {
			return out, err
		}
		out.magic = out.magic<<magicBits | one.magic
		out.size += one.size
		if len(types) > 1 {
			out.size += -one.size & 3
		}
	}
	return out, nil
}

// formOf returns the form of a wanted set.
func formOf(f datapath.Family, s datapath.Set) (setForm, error) {
	key, err := concatenatedType(f, s.Key)
	if err != nil {
		return setForm{}, fmt.Errorf("key of set %s: %w", s.Name, err)
	}
	value, err := concatenatedType(f, s.Value)
	if err != nil {
		return setForm{}, fmt.Errorf("value of map %s: %w", s.Name, err)
	}
	form := setForm{keyType: key.magic, keyLen: key.size, dataType: value.magic, dataLen: value.size}
	if len(s.Value) > 0 {
		form.flags |= unix.NFT_SET_MAP
	}
	if len(s.Key) > 1 {
		form.flags |= setConcat
	}
	if s.Interval() {
		form.flags |= unix.NFT_SET_INTERVAL
	}
	return form, nil
}

// simpleInterval reports whether the ranges of the set are stored as separate start and end elements.
func (f setForm) simpleInterval() bool {
	return f.flags&unix.NFT_SET_INTERVAL != 0 && f.flags&setConcat == 0
}

// canHold reports whether an existing set can hold the elements of the wanted form: an interval set can hold single values, too.
func (f setForm) canHold(want setForm) bool {
	const counts = unix.NFT_SET_MAP | unix.NFT_SET_INTERVAL
	a, b := f.flags&counts, want.flags&counts
	f.flags, want.flags = 0, 0
	return f == want && (a == b || a == b|unix.NFT_SET_INTERVAL)
}

// interval is a range of keys, each padded to registers.
type interval struct{ low, high string }

func compareIntervals(a, b interval) int {
	return cmp.Or(cmp.Compare(a.low, b.low), cmp.Compare(a.high, b.high))
}

// flattenElements returns the elements of a set in the encoding of the kernel.
func flattenElements(s datapath.Set) (map[interval]string, error) {
	out := make(map[interval]string, len(s.Elements))
	for _, e := range s.Elements {
		if len(e.Key) != len(s.Key) || len(e.Value) != len(s.Value) {
			return nil, fmt.Errorf("an element of set %s has %d values and %d behind them, not %d and %d", s.Name, len(e.Key), len(e.Value), len(s.Key), len(s.Value))
		}
		out[interval{padFields(e.Key, lowBound), padFields(e.Key, highBound)}] = padFields(e.Value, lowBound)
	}
	return out, nil
}

func lowBound(v datapath.Value) string  { return v.Low }
func highBound(v datapath.Value) string { return v.High }

// padFields concatenates values with padding. A single value is not padded.
func padFields(values []datapath.Value, part func(datapath.Value) string) string {
	if len(values) == 1 {
		return part(values[0])
	}
	var b strings.Builder
	for _, v := range values {
		one := part(v)
		b.WriteString(one)
		b.WriteString("\x00\x00\x00"[:-len(one)&3])
	}
	return b.String()
}

// rawElement is an element as reported by the kernel.
type rawElement struct {
	key, keyEnd, value string
	end                bool // the end of an interval: the first key after the range
}

func parseElement(data []byte) rawElement {
	a := parseAttrs(data)
	value := func(kind uint16) string { return string(parseAttrs(a[kind])[unix.NFTA_DATA_VALUE]) }
	return rawElement{
		value(unix.NFTA_SET_ELEM_KEY), value(elemKeyEnd), value(unix.NFTA_SET_ELEM_DATA),
		a.bigUint32(unix.NFTA_SET_ELEM_FLAGS)&unix.NFT_SET_ELEM_INTERVAL_END != 0,
	}
}

// toIntervals converts reported elements into ranges. Sets with simple intervals report start and end elements.
func toIntervals(raw []rawElement, simple bool) map[interval]string {
	out := make(map[interval]string, len(raw))
	if !simple {
		for _, e := range raw {
			out[interval{e.key, cmp.Or(e.keyEnd, e.key)}] = e.value
		}
		return out
	}
	slices.SortFunc(raw, func(a, b rawElement) int {
		if a.key == b.key && a.end != b.end { // an interval ends before the next one starts at the same key
			if a.end {
				return -1
			}
			return 1
		}
		return cmp.Compare(a.key, b.key)
	})
	for i, e := range raw {
		switch {
		case e.end:
		case i+1 < len(raw):
			out[interval{e.key, predecessorKey(raw[i+1].key)}] = e.value
		default:
			out[interval{e.key, strings.Repeat("\xff", len(e.key))}] = e.value
		}
	}
	return out
}

// predecessorKey returns the key before a key. The key must not be the first key.
func predecessorKey(key string) string {
	b := []byte(key)
	for i := len(b) - 1; i >= 0; i-- {
		b[i]--
		if b[i] != 0xff {
			break
		}
	}
	return string(b)
}

// successorKey returns the key after the given one, and false after the last key.
func successorKey(key string) (string, bool) {
	b := []byte(key)
	for i := len(b) - 1; i >= 0; i-- {
		b[i]++
		if b[i] != 0 {
			return string(b), true
		}
	}
	return "", false
}

// encodeElement encodes an element for a set of the given form.
func (e interval) encodeElement(value string, form setForm) []byte {
	var data []byte
	if form.flags&unix.NFT_SET_MAP != 0 {
		data = encodeNested(unix.NFTA_SET_ELEM_DATA, encodeAttr(unix.NFTA_DATA_VALUE, []byte(value)))
	}
	key := encodeNested(unix.NFTA_SET_ELEM_KEY, encodeAttr(unix.NFTA_DATA_VALUE, []byte(e.low)))
	switch {
	case form.flags&unix.NFT_SET_INTERVAL == 0:
		return encodeNested(unix.NFTA_LIST_ELEM, key, data)
	case form.flags&setConcat != 0:
		end := encodeNested(elemKeyEnd, encodeAttr(unix.NFTA_DATA_VALUE, []byte(e.high)))
		return encodeNested(unix.NFTA_LIST_ELEM, key, end, data)
	}
	out := encodeNested(unix.NFTA_LIST_ELEM, key, data)
	if behind, ok := successorKey(e.high); ok {
		end := encodeNested(unix.NFTA_SET_ELEM_KEY, encodeAttr(unix.NFTA_DATA_VALUE, []byte(behind)))
		flags := encodeAttr(unix.NFTA_SET_ELEM_FLAGS, bigUint32(unix.NFT_SET_ELEM_INTERVAL_END))
		out = append(out, encodeNested(unix.NFTA_LIST_ELEM, flags, end)...)
	}
	return out
}

// toDatapath converts the set into a datapath.Set.
func (s *kernelSet) toDatapath(f datapath.Family, name string) datapath.Set {
	out := datapath.Set{Name: name, Key: typesOf(f, s.keyType)}
	if s.flags&unix.NFT_SET_MAP != 0 {
		out.Value = typesOf(f, s.dataType)
	}
	for e, value := range s.elements {
		out.Elements = append(out.Elements, datapath.Element{Key: splitFields(f, out.Key, e.low, e.high), Value: splitFields(f, out.Value, value, value)})
	}
	return out
}

// splitFields splits concatenated values.
func splitFields(f datapath.Family, types []datapath.Type, low, high string) []datapath.Value {
	var out []datapath.Value
	for _, t := range types {
		info, _ := typeOf(f, t)
		size := int(info.size)
		if len(low) < size || len(high) < size {
			return out
		}
		out = append(out, datapath.Value{Type: t, Low: low[:size], High: high[:size]})
		next := min((size+3)&^3, len(low))
		low, high = low[next:], high[next:]
	}
	return out
}
