// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package ui

import (
	"errors"
	"fmt"
	"strings"
	"testing"
)

// What a peer wrote commands no terminal, wherever it is printed.
func TestHostileTextOnATerminal(t *testing.T) {
	const hostile = "fine\x1b[2J\x1b]0;title\x07\u009b31m\u202egnp\r"
	p, stdout, stderr := pipe("")
	p.Info("%s", hostile)
	p.Success("%v", errors.New(hostile))
	p.Warn("%q of %s", hostile, []string{hostile})
	p.Scope("remote").Error("%s", hostile)
	section := NewSection(hostile)
	section.Entry(hostile, hostile, hostile)
	section.Section(hostile).Entry("key", hostile)
	p.Box(section)
	if step := p.Spin(hostile); strings.ContainsAny(step.whole(), "\x1b\x07\r\u009b\u202e") {
		t.Errorf("a step says %q", step.whole())
	}
	terminal, shown, _ := pipe("")
	terminal.terminal = true
	for _, part := range []string{hostile, "città \u00b0 \u2014\n", "\u0085"} {
		for i := range len(part) { // in single bytes
			if _, err := fmt.Fprint(terminal.Result(), part[i:i+1]); err != nil {
				t.Fatal(err)
			}
		}
	}
	whole := terminal.Result()
	if _, err := fmt.Fprint(whole, "città ° — "+hostile); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"standard output": stdout.String(), "standard error": stderr.String(), "a document": shown.String()} {
		if strings.ContainsAny(text, "\x1b\x07\r") || strings.Contains(text, "\u009b") {
			t.Errorf("%s: %q", name, text)
		}
	}
	if !strings.Contains(shown.String(), "città ° — fine") {
		t.Errorf("a document: %q", shown.String())
	}
}
