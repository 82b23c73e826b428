// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package ui

import (
	"context"
	"errors"
	"net/url"
	"slices"
	"sync"
)

// Plan runs the steps of a command concurrently, each as soon as its dependencies are done, and prints their lines in a fixed order: a line is
// printed when the line and all lines before it are true.
//
//	p := ui.NewPlan(printer)
//	served := p.Add(func(ctx context.Context, p *ui.Printer) error { … })
//	p.Add(func(ctx context.Context, p *ui.Printer) error { … }, served)
//	return p.Run(ctx)
type Plan struct {
	order *Order
	steps []*Step
}

// Step is one step of a plan.
type Step struct {
	do      StepFunc
	needs   []*Step
	printer *Printer
	end     func()
	done    chan struct{} // closed after a success
	err     error
}

// StepFunc runs a step, and prints by the printer.
type StepFunc func(ctx context.Context, printer *Printer) error

// NewPlan returns a plan without steps.
func NewPlan(p *Printer) *Plan { return &Plan{order: p.Order()} }

// Add adds a step that starts after all dependencies succeeded.
func (p *Plan) Add(do StepFunc, needs ...*Step) *Step {
	s := &Step{do: do, needs: needs, done: make(chan struct{})}
	s.printer, s.end = p.order.Turn()
	p.steps = append(p.steps, s)
	return s
}

// All returns the steps so far.
func (p *Plan) All() []*Step { return slices.Clone(p.steps) }

// inOrder is the context key of InOrder.
type inOrder struct{}

// InOrder returns a context that makes plans run one step after another.
func InOrder(ctx context.Context) context.Context { return context.WithValue(ctx, inOrder{}, true) }

// Run runs all steps, and returns after all have ended. The first failure cancels all remaining steps and is returned. At a timeout, Run returns the
// error of the first step in order.
func (p *Plan) Run(ctx context.Context) error {
	within, cancel := context.WithCancel(ctx)
	defer cancel()
	var first error
	var once sync.Once
	var going sync.WaitGroup
	for _, s := range p.steps {
		run := func() {
			if !s.ready(within) {
				return
			}
			if s.err = s.do(within, s.printer); s.err == nil {
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
		}
		if ctx.Value(inOrder{}) != nil {
			run()
			continue
		}
		going.Go(run)
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

// ready waits for the dependencies of the step.
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

// failure returns the error of the first failed step in order, nil if all succeeded. A step that says what it waited for is preferred over a step
// whose request was interrupted by the end of ctx.
func (p *Plan) failure(ctx context.Context) error {
	var interrupted error
	for _, s := range p.steps {
		switch {
		case s.err == nil:
		case ctx.Err() == nil || !isInterruptedRequest(s.err):
			return s.err
		case interrupted == nil:
			interrupted = s.err
		}
	}
	if interrupted != nil {
		return interrupted
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

func isInterruptedRequest(err error) bool {
	request, ok := errors.AsType[*url.Error](err)
	return ok && (errors.Is(request.Err, context.Canceled) || errors.Is(request.Err, context.DeadlineExceeded))
}
