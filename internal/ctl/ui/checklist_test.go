// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package ui

import (
	"bytes"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestChecklist(t *testing.T) {
	for terminal, want := range map[bool]string{
		false: "peer milan\n----------\n√ a\n‼ b\n    c\n× d[2J\n· e\n\n",
		true:  "\x1b[1mpeer milan\x1b[0m\n----------\n\x1b[32m√\x1b[0m a\n\x1b[33m‼\x1b[0m b\n    c\n\x1b[31m×\x1b[0m \x1b[1md[2J\x1b[0m\n\x1b[90m·\x1b[0m e\n\n",
	} {
		var stdout bytes.Buffer
		p := &Printer{stdout: &stdout, terminal: terminal}
		p.Checklist("peer milan", []ChecklistItem{
			{Mark: MarkPassed, Text: "a"}, {Mark: MarkWarning, Text: "b", Details: []string{"c"}}, {Mark: MarkFailed, Text: "d\x1b[2J", Bold: true}, {Mark: MarkSkipped, Text: "e"},
		})
		if diff := cmp.Diff(want, stdout.String()); diff != "" {
			t.Errorf("on a terminal %t, -want +got:\n%s", terminal, diff)
		}
	}
}
