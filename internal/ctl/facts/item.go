// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package facts

import (
	"liqo.io/liqo/internal/ctl/diagnose"
	"liqo.io/liqo/internal/ctl/ui"
)

var marks = map[diagnose.Severity]ui.Mark{
	diagnose.Passed: ui.MarkPassed, diagnose.Warning: ui.MarkWarning, diagnose.Failed: ui.MarkFailed, diagnose.Skipped: ui.MarkSkipped,
}

// NewItem returns a check as an item of a checklist, with the findings below.
func NewItem(c diagnose.Check) ui.ChecklistItem {
	item := ui.ChecklistItem{Mark: marks[c.Status], Text: c.Name}
	if c.Note != "" {
		item.Text += " (" + c.Note + ")"
	}
	for _, f := range c.Findings {
		item.Details = append(item.Details, f.Object+": "+f.Message)
		if f.Remedy != "" {
			item.Details = append(item.Details, "  → "+f.Remedy)
		}
		item.Details = append(item.Details, "  see "+f.Page)
	}
	return item
}
