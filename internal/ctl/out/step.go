// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package out

import (
	"slices"
	"strings"
	"time"

	"github.com/pterm/pterm"
)

// patience is how long a wait is for the same thing before a line tells it, unless a spinner does.
const patience = 10 * time.Second

// A Step is something that takes time. It spins on a terminal until Done or Stop; elsewhere its end is printed, and what it waits for
// if that takes long.
type Step struct {
	printer *Printer // the one that writes
	teller  *Printer // the one that was asked, whose turn may not have come
	colour  pterm.Color
	label   string
	spinner *pterm.SpinnerPrinter
	text    string
	started time.Time

	// missing is what the step waits for, as far as is known.
	missing string
	told    []string
	late    *time.Timer // nil before something is missing
	over    bool        // nothing more is to be told
}

// Step starts a step. Only one spins at a time: the one that has gone on for longest.
func (p *Printer) Step(text string) *Step { return p.step(pterm.FgBlue, "", text) }

func (p *Printer) step(colour pterm.Color, label, text string) *Step {
	teller := p
	p = p.root()
	p.mu.Lock()
	defer p.mu.Unlock()
	s := &Step{printer: p, teller: teller, colour: colour, label: label, text: text, started: time.Now()}
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
	s.text, s.missing = text, ""
	s.show()
}

// Waits says what the step waits for: beside the spinner at once, and where it has no room there in one line if it stays the same for a while.
func (s *Step) Waits(missing string) {
	s.printer.mu.Lock()
	defer s.printer.mu.Unlock()
	if s.over || s.missing == missing {
		return
	}
	s.missing = missing
	if s.printer.terminal {
		s.show()
		if fit(s.whole(), room()) == s.whole() {
			return
		}
	}
	s.watch()
}

// watch has it told in a while what is missing now.
func (s *Step) watch() {
	if s.late != nil {
		s.late.Stop()
	}
	missing := s.missing
	s.late = time.AfterFunc(patience, func() { s.tell(missing) })
}

// tell tells what is missing, unless it is something else by now, or lines that come first are waited for: it may be none by then.
func (s *Step) tell(missing string) {
	speaks := s.teller.speaks() // unlocked: an order locks before its printer
	if s.due(missing, speaks) {
		s.teller.Warn("%s%s: %s", s.label, s.text, missing)
	}
}

// due tells whether that is still missing and can be told, which each thing is once.
func (s *Step) due(missing string, speaks bool) bool {
	s.printer.mu.Lock()
	defer s.printer.mu.Unlock()
	switch {
	case s.over || s.missing != missing || slices.Contains(s.told, missing):
		return false
	case !speaks:
		s.watch()
		return false
	}
	s.told = append(s.told, missing)
	return true
}

// room is what a spinner and its seconds leave of the columns of a terminal.
func room() int { return pterm.GetTerminalWidth() - 12 }

// whole is what the spinner would say with room for all of it.
func (s *Step) whole() string {
	if s.missing == "" {
		return s.label + clean(s.text)
	}
	return s.label + clean(s.text) + ": " + clean(s.missing)
}

// says is what the spinner says.
func (s *Step) says() string { return fit(s.whole(), room()) }

// fit cuts what has no room: a line that wraps cannot be drawn over.
func fit(text string, width int) string {
	text, _, _ = strings.Cut(text, "\n")
	if all := []rune(text); len(all) > width && width > 0 {
		return string(all[:width-1]) + "…"
	}
	return text
}

func (s *Step) show() {
	if s.spinner != nil {
		s.spinner.UpdateText(s.says())
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
	s.over = true
	if s.late != nil {
		s.late.Stop()
	}
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
		WithStyle(pterm.NewStyle(s.colour)).
		WithRemoveWhenDone(true).
		Start(s.says())
	if err == nil {
		spinner.SetStartedAt(s.started) // Start takes the time for that, whatever was said
		s.spinner = spinner
	}
}
