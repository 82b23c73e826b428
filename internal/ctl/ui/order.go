// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package ui

import "sync"

// Order prints the lines of concurrent steps in a fixed order: the lines of a turn are buffered until all turns before it have
// ended.
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
	waiting []outputLine
}

// Order returns an Order that prints by p.
func (p *Printer) Order() *Order { return &Order{printer: p} }

// Turn returns the printer of the next turn, and the function that ends the turn.
func (o *Order) Turn() (p *Printer, end func()) {
	o.mu.Lock()
	defer o.mu.Unlock()
	t := &turn{order: o, at: len(o.turns)}
	o.turns = append(o.turns, t)
	of := o.printer
	return &Printer{in: of.in, stdout: of.stdout, stderr: of.stderr, terminal: of.terminal, turn: t}, t.end
}

// Abandon prints the buffered warnings and drops all remaining lines, because their preceding lines will never be true.
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

func (t *turn) print(l outputLine) {
	t.order.mu.Lock()
	defer t.order.mu.Unlock()
	if t.at > t.order.next {
		t.waiting = append(t.waiting, l)
		return
	}
	t.order.printer.print(l)
}

// speaks reports whether the lines of the printer are printed at once.
func (p *Printer) speaks() bool {
	for p.turn != nil {
		if !p.turn.has() {
			return false
		}
		p = p.turn.order.printer
	}
	return true
}

// has reports whether all turns before this one have ended.
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

// flush prints the buffered lines of the current turn.
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
