// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"encoding/binary"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	_ "liqo.io/liqo/internal/testkit/repeatable"
	"pgregory.net/rapid"

	"liqo.io/liqo/internal/datapath"
)

// address4 returns an address of a small space that reaches both ends, so that ranges meet each other and the borders.
func address4(n int) string {
	if n >= 32 {
		n += 1<<32 - 64
	}
	return string(binary.BigEndian.AppendUint32(nil, uint32(n)))
}

// ranges draws values that do not overlap, some of them next to each other.
func ranges(t *rapid.T, label string) []datapath.Value {
	var out []datapath.Value
	for n := 0; n < 64; {
		n += rapid.IntRange(0, 8).Draw(t, label+" gap")
		end := n + rapid.SampledFrom([]int{0, 0, 0, 1, 3, 7}).Draw(t, label+" length")
		if end >= 64 || n < 32 && end >= 32 {
			break
		}
		out = append(out, datapath.Value{Type: datapath.TypeAddress, Low: address4(n), High: address4(end)})
		n = end + 1
	}
	return out
}

func TestApplySets(t *testing.T) {
	k := newTestNamespace(t).open(t)
	rapid.Check(t, func(t *rapid.T) {
		for range 4 {
			var simple, mapped, joined []datapath.Element
			for _, v := range ranges(t, "set") {
				simple = append(simple, datapath.Element{Key: []datapath.Value{v}})
			}
			for _, v := range ranges(t, "map") {
				value := datapath.Value{Type: datapath.TypeAddress, Low: address4(rapid.IntRange(0, 1).Draw(t, "value"))}
				value.High = value.Low
				mapped = append(mapped, datapath.Element{Key: []datapath.Value{v}, Value: []datapath.Value{value}})
			}
			for i, v := range ranges(t, "concatenation") {
				port := uint16(rapid.IntRange(1, 3).Draw(t, "port"))
				joined = append(joined, datapath.Element{Key: []datapath.Value{datapath.Ports(port, port+uint16(i%2)), v}})
			}
			address := []datapath.Type{datapath.TypeAddress}
			want := datapath.State{Tables: []datapath.Table{{Family: datapath.IPv4, Name: datapath.TableName, Sets: []datapath.Set{
				{Name: "joined", Key: []datapath.Type{datapath.TypePort, datapath.TypeAddress}, Elements: joined},
				{Name: "mapped", Key: address, Value: address, Elements: mapped},
				{Name: "simple", Key: address, Elements: simple},
			}}}}
			want.Sort()
			if _, err := k.Apply(t.Context(), want); err != nil {
				t.Fatal(err)
			}
			got, err := k.Observe()
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want.String(), got.String()); diff != "" {
				t.Fatal(diff)
			}
		}
	})
}

func TestSetKeyNeighbours(t *testing.T) {
	for key, want := range map[string]string{"\x00\x01": "\x00\x02", "\x00\xff": "\x01\x00", "\x0a\x00\xff\xff": "\x0a\x01\x00\x00"} {
		if got, ok := successorKey(key); !ok || got != want {
			t.Errorf("after %x: %x", key, got)
		}
		if got := predecessorKey(want); got != key {
			t.Errorf("before %x: %x", want, got)
		}
	}
	if got, ok := successorKey("\xff\xff"); ok {
		t.Errorf("after the last: %x", got)
	}
}

func TestPrefixComparison(t *testing.T) {
	for v, want := range map[datapath.Value]string{
		datapath.Prefix(parsePrefix("10.0.0.0/8")):   "ff000000",
		datapath.Prefix(parsePrefix("10.32.0.0/11")): "ffe00000",
		datapath.Prefix(parsePrefix("0.0.0.0/0")):    "00000000",
		datapath.Port(80):                            "ffff",
		datapath.Ports(80, 81):                       "fffe",
		datapath.Ports(81, 82):                       "no",
		datapath.Ports(80, 82):                       "no",
		datapath.Ports(0, 1<<15):                     "no",
		datapath.Prefix(parsePrefix("fd00::/61")):    "fffffffffffffff80000000000000000",
		{Type: datapath.TypeAddress, Low: "\n\x00\x00\x01", High: "\n\x00\x00\x02"}: "no",
	} {
		got := "no"
		if mask, ok := networkMask(v); ok {
			got = fmt.Sprintf("%x", mask)
		}
		if got != want {
			t.Errorf("%s: %s, want %s", v, got, want)
		}
	}
}
