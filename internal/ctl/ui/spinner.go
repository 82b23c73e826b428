// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package ui

import (
	"slices"
	"strings"
	"time"

	"github.com/pterm/pterm"
)

// patience is how long a missing condition must stay the same before a line about the condition is printed, without a spinner.
const patience = 10 * time.Second

// Spinner is an action that takes time. On a terminal, a spinner is shown until Done or Stop. Elsewhere the end is printed, and the missing condition
// after a while.
type Spinner struct {
	printer *Printer // the root printer
	teller  *Printer // the printer of the step, whose turn may be later
	colour  pterm.Color
	label   string
	spinner *pterm.SpinnerPrinter
	text    string
	started time.Time

	// missing is the awaited condition, if known.
	missing string
	printed []string
	late    *time.Timer // nil before a condition is missing
	over    bool        // the step ended: no further lines
}

// Spin starts a step. Only the longest-running step has a spinner.
func (p *Printer) Spin(text string) *Spinner { return p.step(pterm.FgBlue, "", text) }

func (p *Printer) step(colour pterm.Color, label, text string) *Spinner {
	teller := p
	p = p.root()
	p.mu.Lock()
	defer p.mu.Unlock()
	s := &Spinner{printer: p, teller: teller, colour: colour, label: label, text: text, started: time.Now()}
	if p.terminal {
		if p.steps = append(p.steps, s); len(p.steps) == 1 {
			s.resume()
		}
	}
	return s
}

// Text changes the text of a running step.
func (s *Spinner) Text(text string) {
	s.printer.mu.Lock()
	defer s.printer.mu.Unlock()
	s.text, s.missing = text, ""
	s.show()
}

// Waits shows the condition that the step waits for: at once if the line of the spinner has space for the condition, else as a line once the
// condition stays the same for a while.
func (s *Spinner) Waits(missing string) {
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

// watch starts the timer for the line about the missing condition.
func (s *Spinner) watch() {
	if s.late != nil {
		s.late.Stop()
	}
	missing := s.missing
	s.late = time.AfterFunc(patience, func() { s.printMissing(missing) })
}

// printMissing prints the missing condition, unless the condition has changed, or earlier turns are still running: the condition may be met before
// these turns end.
func (s *Spinner) printMissing(missing string) {
	speaks := s.teller.speaks() // before the lock: an order locks before its printer
	if s.due(missing, speaks) {
		s.teller.Warn("%s%s: %s", s.label, s.text, missing)
	}
}

// due reports whether the condition is still missing and has not been printed before.
func (s *Spinner) due(missing string, speaks bool) bool {
	s.printer.mu.Lock()
	defer s.printer.mu.Unlock()
	switch {
	case s.over || s.missing != missing || slices.Contains(s.printed, missing):
		return false
	case !speaks:
		s.watch()
		return false
	}
	s.printed = append(s.printed, missing)
	return true
}

// room returns the columns of the terminal beside a spinner and the seconds.
func room() int { return pterm.GetTerminalWidth() - 12 }

// whole returns the full text of the spinner.
func (s *Spinner) whole() string {
	if s.missing == "" {
		return s.label + clean(s.text)
	}
	return s.label + clean(s.text) + ": " + clean(s.missing)
}

// visibleText returns the text of the spinner, cut to the terminal's width.
func (s *Spinner) visibleText() string { return fit(s.whole(), room()) }

// fit cuts a text to a width: a wrapped line cannot be redrawn.
func fit(text string, width int) string {
	text, _, _ = strings.Cut(text, "\n")
	if all := []rune(text); len(all) > width && width > 0 {
		return string(all[:width-1]) + "…"
	}
	return text
}

func (s *Spinner) show() {
	if s.spinner != nil {
		s.spinner.UpdateText(s.visibleText())
	}
}

// Done ends the step with a success line.
func (s *Spinner) Done(format string, args ...any) {
	s.Stop()
	s.printer.Success(format, args...)
}

// Stop ends the step without a line; the caller prints the reason. Stop is idempotent.
func (s *Spinner) Stop() {
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

func (s *Spinner) pause() {
	if s.spinner != nil {
		_ = s.spinner.Stop()
		s.spinner = nil
	}
}

func (s *Spinner) resume() {
	spinner, err := pterm.DefaultSpinner.
		WithWriter(s.printer.stderr).
		WithStyle(pterm.NewStyle(s.colour)).
		WithRemoveWhenDone(true).
		Start(s.visibleText())
	if err == nil {
		spinner.SetStartedAt(s.started) // Start would reset the start time
		s.spinner = spinner
	}
}
