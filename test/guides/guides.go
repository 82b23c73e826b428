// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

// Package guides has what guides have their readers type, and what they say that is seen then.
package guides

import (
	"embed"
	"fmt"
	"regexp"
	"strings"
)

//go:embed *.txt
var files embed.FS

// Line is one that is typed, with those that belong to it, and what the guide says that is seen then.
type Line struct {
	// Cluster is the one whose kubeconfig is the usual one: 1 or 2.
	Cluster string
	// Again has it typed until it shows what it should.
	Again bool
	Text  string
	// Shown are lines among others, in this order.
	Shown []string
}

// Open returns the lines of a guide.
func Open(name string) ([]Line, error) {
	text, err := files.ReadFile(name + ".txt")
	if err != nil {
		return nil, fmt.Errorf("opening the guide: %w", err)
	}
	return Read(string(text))
}

var (
	prompt = regexp.MustCompile(`^([12])([$?]) (.*)$`)
	here   = regexp.MustCompile(`<<(\w+)$`)
)

// Read returns the lines of a transcript. One that ends with a backslash goes on with the next, and one with << and a word until that word.
func Read(transcript string) ([]Line, error) {
	var all []Line
	open, until := false, ""
	for line := range strings.Lines(transcript) {
		line = strings.TrimRight(line, "\n")
		if until != "" {
			all[len(all)-1].Text += "\n" + line
			if line == until {
				until = ""
			}
			continue
		}
		switch found := prompt.FindStringSubmatch(line); {
		case found != nil:
			all = append(all, Line{Cluster: found[1], Again: found[2] == "?", Text: found[3]})
			open = strings.HasSuffix(line, `\`)
			if document := here.FindStringSubmatch(line); document != nil {
				until = document[1]
			}
		case strings.HasPrefix(line, "#"):
		case open:
			all[len(all)-1].Text += "\n" + line
			open = strings.HasSuffix(line, `\`)
		case strings.TrimSpace(line) != "":
			if len(all) == 0 {
				return nil, fmt.Errorf("%q is shown before anything is typed", line)
			}
			all[len(all)-1].Shown = append(all[len(all)-1].Shown, line)
		}
	}
	if until != "" {
		return nil, fmt.Errorf("the document of %q does not end", all[len(all)-1].Text)
	}
	return all, nil
}

// Documents returns the YAML documents that a line types into a file, none where it types no file.
func (l Line) Documents() []string {
	first, body, found := strings.Cut(l.Text, "\n")
	document := here.FindStringSubmatch(first)
	if !found || document == nil {
		return nil
	}
	return strings.Split(strings.TrimSuffix(body, "\n"+document[1]), "\n---\n")
}
