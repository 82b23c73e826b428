// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package ui

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
)

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
