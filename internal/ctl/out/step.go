// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package out

import (
	"slices"
	"time"

	"github.com/pterm/pterm"
)

// A Step is something that takes time. It spins on a terminal until Done or Stop; elsewhere only its end is printed.
type Step struct {
	printer *Printer
	spinner *pterm.SpinnerPrinter
	text    string
	started time.Time
}

// Step starts a step. Only one spins at a time: the one that has gone on for longest.
func (p *Printer) Step(text string) *Step {
	p = p.root()
	p.mu.Lock()
	defer p.mu.Unlock()
	s := &Step{printer: p, text: text, started: time.Now()}
	if p.terminal {
		if p.steps = append(p.steps, s); len(p.steps) == 1 {
			s.resume()
		}
	}
	return s
}

// Text changes what the step says while it lasts.
func (s *Step) Text(text string) {
	s.printer.mu.Lock()
	defer s.printer.mu.Unlock()
	s.text = text
	if s.spinner != nil {
		s.spinner.UpdateText(text)
	}
}

// Done ends the step well.
func (s *Step) Done(format string, args ...any) {
	s.Stop()
	s.printer.Success(format, args...)
}

// Stop ends the step without a word; whoever called it says why. It may be called twice.
func (s *Step) Stop() {
	s.printer.mu.Lock()
	defer s.printer.mu.Unlock()
	s.pause()
	at := slices.Index(s.printer.steps, s)
	if at < 0 {
		return
	}
	s.printer.steps = slices.Delete(s.printer.steps, at, at+1)
	if at == 0 && len(s.printer.steps) > 0 {
		s.printer.steps[0].resume()
	}
}

func (s *Step) pause() {
	if s.spinner != nil {
		_ = s.spinner.Stop()
		s.spinner = nil
	}
}

func (s *Step) resume() {
	spinner, err := pterm.DefaultSpinner.
		WithWriter(s.printer.stderr).
		WithStyle(pterm.NewStyle(pterm.FgBlue)).
		WithRemoveWhenDone(true).
		WithStartedAt(s.started).
		Start(s.text)
	if err == nil {
		s.spinner = spinner
	}
}
