// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package ui

import (
	"fmt"
	"strings"

	"github.com/pterm/pterm"
)

// Mark is the sign in front of an item of a checklist.
type Mark string

// Marks of checklists.
const (
	MarkPassed  Mark = "√"
	MarkWarning Mark = "‼"
	MarkFailed  Mark = "×"
	MarkSkipped Mark = "·"
)

// ChecklistItem is a line of a checklist, with the lines below it.
type ChecklistItem struct {
	Mark    Mark
	Text    string
	Details []string
	// Bold highlights the text on a terminal.
	Bold bool
}

// Checklist prints a title and the items to the result stream.
func (p *Printer) Checklist(title string, items []ChecklistItem) {
	title = clean(title)
	rule := strings.Repeat("-", len([]rune(title)))
	if p.terminal {
		title = pterm.Bold.Sprint(title)
	}
	fmt.Fprintf(p.stdout, "%s\n%s\n", title, rule)
	for _, item := range items {
		mark := string(item.Mark)
		if p.terminal {
			mark = map[Mark]pterm.Color{MarkPassed: pterm.FgGreen, MarkWarning: pterm.FgYellow, MarkFailed: pterm.FgRed, MarkSkipped: pterm.FgDarkGray}[item.Mark].Sprint(mark)
		}
		text := clean(item.Text)
		if p.terminal && item.Bold {
			text = pterm.Bold.Sprint(text)
		}
		fmt.Fprintf(p.stdout, "%s %s\n", mark, text)
		for _, line := range item.Details {
			fmt.Fprintf(p.stdout, "    %s\n", clean(line))
		}
	}
	fmt.Fprintln(p.stdout)
}
