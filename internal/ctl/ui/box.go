// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package ui

import (
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/pterm/pterm"
)

const boxWidth = 80

// Section is a titled group of lines: entries with keys padded to one width, then sub-sections, one level deeper.
type Section struct {
	title    string
	entries  []sectionEntry
	children []*Section
}

type sectionEntry struct {
	key    string
	values []string
}

// NewSection returns an empty section.
func NewSection(title string) *Section { return &Section{title: clean(title)} }

// Entry adds a line, or several below one key. A key without values is a line by itself.
func (s *Section) Entry(key string, values ...string) {
	cleaned := make([]string, 0, len(values))
	for _, value := range values {
		cleaned = append(cleaned, clean(value))
	}
	s.entries = append(s.entries, sectionEntry{clean(key), cleaned})
}

// Section adds a sub-section.
func (s *Section) Section(title string) *Section {
	child := NewSection(title)
	s.children = append(s.children, child)
	return child
}

// Box prints the section to the result stream, in a box of 80 columns.
func (p *Printer) Box(s *Section) {
	var b strings.Builder
	s.write(&b, 0, p.terminal)
	border := func(remaining, right, title string) string {
		if title != "" {
			title = " " + title + " "
		}
		return remaining + "─" + title + strings.Repeat("─", boxWidth-3-utf8.RuneCountInString(title)) + right
	}
	fmt.Fprintln(p.stdout, border("┌", "┐", s.title))
	for line := range strings.Lines(b.String()) {
		line = strings.TrimRight(line, "\n")
		gap := max(0, boxWidth-4-utf8.RuneCountInString(pterm.RemoveColorFromString(line)))
		fmt.Fprintf(p.stdout, "│ %s%s │\n", line, strings.Repeat(" ", gap))
	}
	fmt.Fprintln(p.stdout, border("└", "┘", ""))
}

func (s *Section) write(w io.Writer, level int, terminal bool) {
	indent := strings.Repeat("    ", level)
	width := 0
	for _, e := range s.entries {
		if len(e.values) > 0 {
			width = max(width, utf8.RuneCountInString(e.key))
		}
	}
	for _, e := range s.entries {
		switch len(e.values) {
		case 0:
			writeWrapped(w, indent, e.key)
		case 1:
			writeWrapped(w, indent+e.key+":"+strings.Repeat(" ", width-utf8.RuneCountInString(e.key))+" ", e.values[0])
		default:
			fmt.Fprintf(w, "%s%s:\n", indent, e.key)
			for _, v := range e.values {
				writeWrapped(w, indent+"    - ", v)
			}
		}
	}
	for _, c := range s.children {
		title := c.title
		if terminal {
			title = pterm.Bold.Sprint(title)
		}
		fmt.Fprintf(w, "%s%s\n", indent, title)
		c.write(w, level+1, terminal)
	}
}

// writeWrapped writes a text behind a prefix, in lines that fit into the box. Further lines begin below the text, or, if the space is too small,
// slightly right of the prefix. A word that is too long goes beyond the border.
func writeWrapped(w io.Writer, prefix, text string) {
	const room = boxWidth - 4
	if utf8.RuneCountInString(prefix+text) <= room {
		fmt.Fprintln(w, prefix+text)
		return
	}
	leading := utf8.RuneCountInString(text) - utf8.RuneCountInString(strings.TrimLeft(text, " "))
	hanging := utf8.RuneCountInString(prefix) + leading
	if hanging > room/2 {
		hanging = utf8.RuneCountInString(prefix) - utf8.RuneCountInString(strings.TrimLeft(prefix, " ")) + 2
	}
	line, empty := prefix+strings.Repeat(" ", leading), true
	for word := range strings.FieldsSeq(text) {
		switch {
		case empty:
			line += word
		case utf8.RuneCountInString(line)+1+utf8.RuneCountInString(word) > room:
			fmt.Fprintln(w, line)
			line = strings.Repeat(" ", hanging) + word
		default:
			line += " " + word
		}
		empty = false
	}
	fmt.Fprintln(w, line)
}
