// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package docs

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var quoted = regexp.MustCompile("`([^`]+)`")

// The last column of the glossary leads to code: a package that is renamed is renamed there, too.
func TestGlossaryPackages(t *testing.T) {
	rows := 0
	for line := range strings.Lines(read(t, "design/glossary.md")) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		if len(cells) != 3 || strings.HasPrefix(line, "|---") || strings.HasPrefix(line, "| term ") {
			continue
		}
		rows++
		for _, name := range quoted.FindAllStringSubmatch(cells[2], -1) {
			if _, err := os.Stat(filepath.Join("../internal", name[1])); err != nil {
				t.Errorf("%s: %v", strings.TrimSpace(cells[0]), err)
			}
		}
	}
	if rows < 30 {
		t.Errorf("only %d terms were found", rows)
	}
}
