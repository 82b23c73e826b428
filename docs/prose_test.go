// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package docs

import (
	"regexp"
	"slices"
	"strings"
	"testing"
)

// howTos are the pages about networks and peerings that readers follow with a terminal beside them.
var howTos = []string{
	"authentication.md", "declarative-peering.md", "gateway-templates.md", "info.md", "install.md", "migration.md",
	"network-connect.md", "network-reach.md", "peering.md", "tutorial-own-clusters.md",
}

var (
	blankLine = regexp.MustCompile(`\n\s*\n`)
	sentence  = regexp.MustCompile(`^\pL`)
	unnamed   = regexp.MustCompile(`(?i)\b(?:some|any|no|every)body\b|\b(?:who|what|which)ever\b`)
)

// Readers of a how-to page want commands and their output; long paragraphs are for pages that explain.
func TestHowToPages(t *testing.T) {
	const blocksPer1000Words, paragraphWords = 4, 50
	for _, page := range howTos {
		text := read(t, page)
		prose := codeBlock.ReplaceAllString(text, "")
		blocks, words := len(codeBlock.FindAllString(text, -1)), len(strings.Fields(prose))
		if blocks*1000 < blocksPer1000Words*words {
			t.Errorf("%s has %d code blocks in %d words, fewer than %d per 1000", page, blocks, words, blocksPer1000Words)
		}
		if !strings.Contains(text, "You should see") || !strings.Contains(text, "](troubleshooting.md") {
			t.Errorf("%s does not say what readers should see, or where to look if they do not", page)
		}
		if word := unnamed.FindString(prose); word != "" {
			t.Errorf("%s: %q names nothing: say which user, cluster or process", page, word)
		}
		var lengths []int
		for _, paragraph := range blankLine.Split(prose, -1) {
			if sentence.MatchString(paragraph) {
				lengths = append(lengths, len(strings.Fields(paragraph)))
			}
		}
		slices.Sort(lengths)
		if p90 := lengths[len(lengths)*9/10]; p90 > paragraphWords {
			t.Errorf("%s: one paragraph of ten has %d words or more, want at most %d", page, p90, paragraphWords)
		}
	}
}
