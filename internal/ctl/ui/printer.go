// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

// Package ui prints the output of the CLI. Progress goes to standard error in lines that scripts can grep, results to standard output. On a terminal
// the lines have colours, and running steps have a spinner.
package ui

import (
	"bufio"
	"context"
	"errors"
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

// Printer prints the lines of one run of the program. It is safe for concurrent use.
type Printer struct {
	in       io.Reader
	stdout   io.Writer
	stderr   io.Writer
	terminal bool
	turn     *turn // nil outside of an Order
	quiet    bool

	mu    sync.Mutex
	steps []*Spinner // the running steps; the first has the spinner
}

// NewPrinter returns a printer. It uses spinners and colours only if both streams are a terminal, because scripts may read either.
func NewPrinter(stdin io.Reader, stdout, stderr io.Writer) *Printer {
	return &Printer{in: stdin, stdout: stdout, stderr: stderr, terminal: isTerminal(stdout) && isTerminal(stderr)}
}

func isTerminal(stream any) bool {
	f, ok := stream.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// IsTerminal reports whether the output moves.
func (p *Printer) IsTerminal() bool { return p.root().terminal }

// Result returns the stream for results: documents, values, versions. On a terminal, control sequences are removed.
func (p *Printer) Result() io.Writer {
	if p.terminal {
		return &cleanWriter{to: p.stdout}
	}
	return p.stdout
}

// ClearScreen clears a terminal.
func (p *Printer) ClearScreen() {
	if p.IsTerminal() {
		fmt.Fprint(p.stdout, "\x1b[H\x1b[2J")
	}
}

// OnlyWarnings returns a printer that drops lines about progress.
func (p *Printer) OnlyWarnings() *Printer {
	return &Printer{in: p.in, stdout: p.stdout, stderr: p.stderr, terminal: p.terminal, quiet: true}
}

// Info prints a neutral line.
func (p *Printer) Info(format string, args ...any) { p.line(info, pterm.FgDarkGray, format, args) }

// Success prints a line about a completed action.
func (p *Printer) Success(format string, args ...any) { p.line(info, pterm.FgGreen, format, args) }

// Warn prints a line about a problem to be checked by the user.
func (p *Printer) Warn(format string, args ...any) { p.line(warning, pterm.FgYellow, format, args) }

// Error prints a line about a failure.
func (p *Printer) Error(format string, args ...any) { p.line(failure, pterm.FgRed, format, args) }

func (p *Printer) line(level string, colour pterm.Color, format string, args []any) {
	if level == info && p.root().quiet {
		return
	}
	p.print(outputLine{level, p.format(level, colour, fmt.Sprintf(format, cleanArgs(args)...))})
}

// outputLine is a line to print now or later.
type outputLine struct{ level, text string }

func (p *Printer) print(l outputLine) {
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

// root returns the printer that writes.
func (p *Printer) root() *Printer {
	for p.turn != nil {
		p = p.turn.order.printer
	}
	return p
}

// format keeps the format of the original's lines: ` INFO  message`. Further lines of a message are indented to the first one.
func (p *Printer) format(level string, colour pterm.Color, text string) string {
	text = strings.ReplaceAll(strings.TrimRight(text, "\n"), "\n", "\n"+strings.Repeat(" ", len(" INFO  ")))
	if !p.terminal {
		return fmt.Sprintf(" %s  %s", level, text)
	}
	return fmt.Sprintf(" %s  %s", colour.Sprint(level), text)
}

// Errors of a missing confirmation.
var (
	errAborted    = errors.New("aborted: nothing was changed")
	errNoTerminal = errors.New("no terminal is available for a confirmation: add --skip-confirm")
)

// Confirm asks before a destructive action. Only a yes continues. The end of ctx counts as a no.
func (p *Printer) Confirm(ctx context.Context, command string) error {
	if !isTerminal(p.in) {
		return errNoTerminal
	}
	return p.ask(ctx, command)
}

func (p *Printer) ask(ctx context.Context, command string) error {
	fmt.Fprintf(p.stderr, "%s is a potentially destructive command.\nAre you sure you want to continue? [y/N] ", command)
	type reply struct {
		text string
		err  error
	}
	replied := make(chan reply, 1)
	go func() { // a read from a terminal cannot be cancelled: the goroutine stays blocked
		text, err := bufio.NewReader(p.in).ReadString('\n')
		replied <- reply{text, err}
	}()
	var answer reply
	select {
	case <-ctx.Done():
	case answer = <-replied:
	}
	if answer.err != nil && !errors.Is(answer.err, io.EOF) {
		return fmt.Errorf("reading the answer: %w", answer.err)
	}
	switch strings.ToLower(strings.TrimSpace(answer.text)) {
	case "y", "yes":
		fmt.Fprintln(p.stderr, "yes")
		return nil
	}
	fmt.Fprintln(p.stderr, "no")
	return errAborted
}

// Scope prints lines about one of several clusters: ` INFO   (local) message`.
type Scope struct {
	printer *Printer
	label   string
	colour  pterm.Color // the colour of spinners
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

// Warn prints a line about a problem to be checked by the user.
func (s *Scope) Warn(format string, args ...any) { s.printer.Warn(s.label+format, args...) }

// Error prints a line about a failure.
func (s *Scope) Error(format string, args ...any) { s.printer.Error(s.label+format, args...) }

// Spin starts a step in the scope. Stop ends the step; a success is a line of the scope.
func (s *Scope) Spin(text string) *Spinner { return s.printer.step(s.colour, s.label, text) }
