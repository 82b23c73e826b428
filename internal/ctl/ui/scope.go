// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package ui

import "github.com/pterm/pterm"

// Scope prints lines about one of several clusters: ` INFO   (local) message`.
type Scope struct {
	printer *Printer
	label   string
	colour  pterm.Color // the colour of its spinners
}

// Scope returns the scope of a name, such as local or remote. The scope without a name prints plain lines.
func (p *Printer) Scope(name string) *Scope {
	colour := pterm.FgBlue
	if name == "remote" {
		colour = pterm.FgMagenta
	}
	if name == "" {
		return &Scope{printer: p, colour: colour}
	}
	label := "(" + name + ")"
	if p.terminal {
		label = pterm.FgDarkGray.Sprint(label)
	}
	return &Scope{printer: p, label: " " + label + " ", colour: colour}
}

// Success prints a line about a completed action.
func (s *Scope) Success(format string, args ...any) { s.printer.Success(s.label+format, args...) }

// Warn prints a line about a problem that the user should check.
func (s *Scope) Warn(format string, args ...any) { s.printer.Warn(s.label+format, args...) }

// Error prints a line about a failure.
func (s *Scope) Error(format string, args ...any) { s.printer.Error(s.label+format, args...) }

// Spin starts a step in the scope. Stop ends it; a success is a line of the scope.
func (s *Scope) Spin(text string) *Spinner { return s.printer.step(s.colour, s.label, text) }
