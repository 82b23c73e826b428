// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package ui

import (
	"io"
	"slices"
	"strings"
	"testing"

	_ "liqo.io/liqo/internal/testkit/repeatable"
	"pgregory.net/rapid"
)

func TestOrderOfLines(t *testing.T) {
	p, _, stderr := pipe("")
	printed := func(want ...string) {
		t.Helper()
		if got := strings.Fields(strings.ReplaceAll(stderr.String(), " INFO  ", "")); !slices.Equal(got, want) {
			t.Errorf("printed %q, want %q", got, want)
		}
	}
	o := p.Order()
	first, endFirst := o.Turn()
	second, endSecond := o.Turn()
	inner := second.Order()
	a, endA := inner.Turn()
	b, endB := inner.Turn()
	third, endThird := o.Turn()

	third.Success("six")
	endThird()
	b.Success("four")
	printed()
	first.Success("one")
	printed("one")
	first.Success("two")
	endFirst()
	printed("one", "two")
	a.Success("three")
	endA()
	printed("one", "two", "three", "four")
	b.Success("five")
	endB()
	printed("one", "two", "three", "four", "five")
	endSecond()
	printed("one", "two", "three", "four", "five", "six")
}

func TestOrderAbandoned(t *testing.T) {
	p, _, stderr := pipe("")
	o := p.Order()
	first, _ := o.Turn()
	second, end := o.Turn()
	first.Success("true")
	second.Success("true, but not all before it")
	second.Warn("careful")
	end()
	o.Abandon()
	if got, want := stderr.String(), " INFO  true\n WARN  careful\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// Whatever comes when, all lines are printed, in the order of their turns.
func TestOrderIndependentOfTime(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		p, _, stderr := pipe("")
		o := p.Order()
		n := rapid.IntRange(1, 6).Draw(r, "turns")
		printers, ends := make([]*Printer, n), make([]func(), n)
		for i := range n {
			printers[i], ends[i] = o.Turn()
		}
		for _, i := range rapid.Permutation(slices.Collect(func(yield func(int) bool) {
			for i := range n {
				if !yield(i) {
					return
				}
			}
		})).Draw(r, "when") {
			printers[i].Success("%d", i)
			ends[i]()
		}
		want := ""
		for i := range n {
			want += " INFO  " + string(rune('0'+i)) + "\n"
		}
		if got := stderr.String(); got != want {
			r.Errorf("got %q, want %q", got, want)
		}
	})
}

// One step spins at a time, whatever the turns they are in: the one that goes on for longest.
func TestOldestStepSpins(t *testing.T) {
	p, _, _ := pipe("")
	p.stderr, p.terminal = io.Discard, true
	o := p.Order()
	first, _ := o.Turn()
	second, _ := o.Turn()
	steps := []*Spinner{second.Spin("second"), first.Spin("first"), p.Spin("third")}
	for n, s := range steps {
		for i, other := range steps {
			if spins := other.spinner != nil; spins != (i == n) {
				t.Errorf("with %d steps over, step %d spins: %v", n, i, spins)
			}
		}
		second.Success("a line between")
		s.Stop()
		s.Stop()
	}
}
