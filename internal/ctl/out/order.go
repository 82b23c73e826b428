// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package out

import "sync"

// An Order has what goes on at once told in one order: what is printed in a turn waits until all turns before it have ended.
type Order struct {
	printer *Printer
	mu      sync.Mutex
	turns   []*turn
	next    int // the first turn that has not ended
}

type turn struct {
	order   *Order
	at      int
	ended   bool
	waiting []line
}

// Order returns one whose lines are printed by p.
func (p *Printer) Order() *Order { return &Order{printer: p} }

// Turn returns the printer of the turn after those that there are, and what ends it.
func (o *Order) Turn() (p *Printer, end func()) {
	o.mu.Lock()
	defer o.mu.Unlock()
	t := &turn{order: o, at: len(o.turns)}
	o.turns = append(o.turns, t)
	of := o.printer
	return &Printer{in: of.in, stdout: of.stdout, stderr: of.stderr, terminal: of.terminal, turn: t}, t.end
}

// Abandon prints the warnings that wait, and drops the other lines: what had to be true before them is not.
func (o *Order) Abandon() {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, t := range o.turns {
		for _, l := range t.waiting {
			if l.level == warning {
				o.printer.print(l)
			}
		}
		t.waiting = nil
	}
}

func (t *turn) print(l line) {
	t.order.mu.Lock()
	defer t.order.mu.Unlock()
	if t.at > t.order.next {
		t.waiting = append(t.waiting, l)
		return
	}
	t.order.printer.print(l)
}

// speaks tells whether what the printer prints is seen at once.
func (p *Printer) speaks() bool {
	for p.turn != nil {
		if !p.turn.has() {
			return false
		}
		p = p.turn.order.printer
	}
	return true
}

// has tells whether all turns before it have ended.
func (t *turn) has() bool {
	t.order.mu.Lock()
	defer t.order.mu.Unlock()
	return t.at <= t.order.next
}

func (t *turn) end() {
	o := t.order
	o.mu.Lock()
	defer o.mu.Unlock()
	t.ended = true
	for o.next < len(o.turns) && o.turns[o.next].ended {
		o.next++
		o.flush()
	}
}

// flush prints what waits in the turn that is the next one now.
func (o *Order) flush() {
	if o.next == len(o.turns) {
		return
	}
	t := o.turns[o.next]
	for _, l := range t.waiting {
		o.printer.print(l)
	}
	t.waiting = nil
}
