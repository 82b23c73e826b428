// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

// Package out prints what the CLI says. Progress goes to standard error in lines that scripts grep, results to standard
// output; on a terminal the lines have colours and steps spin while they last.
package out

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync"

	"github.com/pterm/pterm"
	"golang.org/x/term"
)

// Levels, as they are printed.
const (
	info    = "INFO"
	warning = "WARN"
	failure = "ERRO"
)

// Printer prints the lines of one run of the program. It may be used from any goroutine.
type Printer struct {
	in       io.Reader
	stdout   io.Writer
	stderr   io.Writer
	terminal bool
	turn     *turn // nil where nothing has to be waited for

	mu    sync.Mutex
	steps []*Step // those that go on, the first of which spins
}

// New returns a printer. It moves and colours only if both streams are a terminal, because either may be
// what somebody's script reads.
func New(stdin io.Reader, stdout, stderr io.Writer) *Printer {
	return &Printer{in: stdin, stdout: stdout, stderr: stderr, terminal: isTerminal(stdout) && isTerminal(stderr)}
}

func isTerminal(stream any) bool {
	f, ok := stream.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// Result is the stream for what was asked: documents, values, versions. A terminal is not commanded by them.
func (p *Printer) Result() io.Writer {
	if p.terminal {
		return &cleanWriter{to: p.stdout}
	}
	return p.stdout
}

// Info prints a line about something neutral.
func (p *Printer) Info(format string, args ...any) { p.line(info, pterm.FgDarkGray, format, args) }

// Success prints a line about something that was done.
func (p *Printer) Success(format string, args ...any) { p.line(info, pterm.FgGreen, format, args) }

// Warn prints a line about something that the user should look at.
func (p *Printer) Warn(format string, args ...any) { p.line(warning, pterm.FgYellow, format, args) }

// Error prints a line about what went wrong.
func (p *Printer) Error(format string, args ...any) { p.line(failure, pterm.FgRed, format, args) }

func (p *Printer) line(level string, colour pterm.Color, format string, args []any) {
	p.print(line{level, p.format(level, colour, fmt.Sprintf(format, cleanArgs(args)...))})
}

// line is one that is printed now or later.
type line struct{ level, text string }

func (p *Printer) print(l line) {
	if p.turn != nil {
		p.turn.print(l)
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.steps) > 0 {
		p.steps[0].pause()
		defer p.steps[0].resume()
	}
	fmt.Fprintln(p.stderr, l.text)
}

// root is the printer that writes.
func (p *Printer) root() *Printer {
	for p.turn != nil {
		p = p.turn.order.printer
	}
	return p
}

// format keeps the shape of the original's lines: ` INFO  message`. The lines of a message that has several are indented to the first.
func (p *Printer) format(level string, colour pterm.Color, text string) string {
	text = strings.ReplaceAll(strings.TrimRight(text, "\n"), "\n", "\n"+strings.Repeat(" ", len(" INFO  ")))
	if !p.terminal {
		return fmt.Sprintf(" %s  %s", level, text)
	}
	return fmt.Sprintf(" %s  %s", colour.Sprint(level), text)
}
