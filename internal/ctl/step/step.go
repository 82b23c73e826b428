// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

// Package step takes the steps of a command at once, each as soon as those that it needs are done, and has them told in one
// order: a line is printed when it and all lines before it are true.
//
//	p := step.New(printer)
//	served := p.Add(func(ctx context.Context, told *out.Printer) error { … })
//	p.Add(func(ctx context.Context, told *out.Printer) error { … }, served)
//	return p.Run(ctx)
package step

import (
	"context"
	"slices"
	"sync"

	"liqo.io/liqo/internal/ctl/out"
)

// A Plan is steps in the order in which they are told.
type Plan struct {
	order *out.Order
	steps []*Step
}

// A Step is one of a plan.
type Step struct {
	do    Do
	needs []*Step
	told  *out.Printer
	end   func()
	done  chan struct{} // closed once it ended well
	err   error
}

// Do does a step, and says so by the printer.
type Do func(ctx context.Context, told *out.Printer) error

// New returns a plan without steps.
func New(p *out.Printer) *Plan { return &Plan{order: p.Order()} }

// Add adds a step, which begins when those that it needs have ended well.
func (p *Plan) Add(do Do, needs ...*Step) *Step {
	s := &Step{do: do, needs: needs, done: make(chan struct{})}
	s.told, s.end = p.order.Turn()
	p.steps = append(p.steps, s)
	return s
}

// All are the steps so far.
func (p *Plan) All() []*Step { return slices.Clone(p.steps) }

// Run takes all steps, and returns when none goes on any more. The first failure ends the others, and is the one that is
// returned. Where all end because the time is over, it is that of the first step in order.
func (p *Plan) Run(ctx context.Context) error {
	within, cancel := context.WithCancel(ctx)
	defer cancel()
	var first error
	var once sync.Once
	var going sync.WaitGroup
	for _, s := range p.steps {
		going.Go(func() {
			if !s.ready(within) {
				return
			}
			if s.err = s.do(within, s.told); s.err == nil {
				s.end()
				close(s.done)
				return
			}
			once.Do(func() {
				first = s.err
				if ctx.Err() != nil {
					first = nil
				}
			})
			cancel()
		})
	}
	going.Wait()
	if first == nil {
		first = p.failure(ctx)
	}
	if first != nil {
		p.order.Abandon()
	}
	return first
}

// ready waits for what the step needs.
func (s *Step) ready(ctx context.Context) bool {
	for _, needed := range s.needs {
		select {
		case <-needed.done:
		case <-ctx.Done():
			return false
		}
	}
	return ctx.Err() == nil
}

// failure is that of the first step that did not end well, nil if all did.
func (p *Plan) failure(ctx context.Context) error {
	for _, s := range p.steps {
		if s.err != nil {
			return s.err
		}
	}
	for _, s := range p.steps {
		select {
		case <-s.done:
		default:
			return ctx.Err()
		}
	}
	return nil
}
