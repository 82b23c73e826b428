// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package faults

import (
	"fmt"
	"os"
	"path"
	"strings"
	"testing"
)

// The documentation shows the list: a row for each fault, in its order.
func TestFaultsAreDocumented(t *testing.T) {
	page, err := os.ReadFile("../../docs/troubleshooting.md")
	if err != nil {
		t.Fatal(err)
	}
	rest, seen := string(page), map[string]bool{}
	for _, f := range All {
		if seen[f.Name] {
			t.Errorf("two faults are called %q", f.Name)
		}
		seen[f.Name] = true
		link := strings.TrimPrefix(f.Page, "troubleshooting.md")
		name := strings.TrimSuffix(path.Base(strings.TrimPrefix(link, "#")), ".md")
		row := fmt.Sprintf("| %s | `%s` | %s | [%s](%s) |\n", f.Name, f.Command, f.Object, name, link)
		_, after, found := strings.Cut(rest, row)
		if !found {
			t.Errorf("docs/troubleshooting.md lacks, or has in another order:\n%s", row)
			continue
		}
		rest = after
	}
}
