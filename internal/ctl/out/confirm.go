// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package out

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strings"
)

// Errors of a confirmation that was not given.
var (
	errAborted    = errors.New("aborted: nothing was changed")
	errNoTerminal = errors.New("there is no terminal to ask for a confirmation: add --skip-confirm")
)

// Confirm asks before something destructive. Only a yes goes on.
func (p *Printer) Confirm(command string) error {
	if !isTerminal(p.in) {
		return errNoTerminal
	}
	return p.ask(command)
}

func (p *Printer) ask(command string) error {
	fmt.Fprintf(p.stderr, "%s is a potentially destructive command.\nAre you sure you want to continue? [y/N] ", command)
	answer, err := bufio.NewReader(p.in).ReadString('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		return fmt.Errorf("reading the answer: %w", err)
	}
	switch strings.ToLower(strings.TrimSpace(answer)) {
	case "y", "yes":
		fmt.Fprintln(p.stderr, "yes")
		return nil
	}
	fmt.Fprintln(p.stderr, "no")
	return errAborted
}
