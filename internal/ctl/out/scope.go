// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package out

import "github.com/pterm/pterm"

// A Scope prints lines about one of several clusters: ` INFO   (local) message`.
type Scope struct {
	printer *Printer
	label   string
}

// Scope returns the scope of a name, such as local or remote. Lines of the one without a name are like any other.
func (p *Printer) Scope(name string) *Scope {
	if name == "" {
		return &Scope{printer: p}
	}
	label := "(" + name + ")"
	if p.terminal {
		label = pterm.FgDarkGray.Sprint(label)
	}
	return &Scope{printer: p, label: " " + label + " "}
}

// Success prints a line about something that was done.
func (s *Scope) Success(format string, args ...any) { s.printer.Success(s.label+format, args...) }

// Warn prints a line about something that the user should look at.
func (s *Scope) Warn(format string, args ...any) { s.printer.Warn(s.label+format, args...) }

// Step starts a step in the scope. It ends with Stop, and its success is a line of the scope.
func (s *Scope) Step(text string) *Step { return s.printer.Step(s.label + text) }
