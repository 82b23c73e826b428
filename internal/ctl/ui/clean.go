// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package ui

import (
	"fmt"
	"io"

	"liqo.io/liqo/internal/policy"
)

// maxText is far above the length of any line.
const maxText = 64 << 10

// clean removes control sequences, since a peer wrote much of the printed text. Colours are added afterwards.
func clean(text string) string { return policy.CleanText(text, maxText) }

// cleanWriter removes control characters from documents. In UTF-8 they are single bytes, or the second byte after 0xc2.
type cleanWriter struct {
	to   io.Writer
	lead bool // the last byte was 0xc2, held back
}

func (w *cleanWriter) Write(p []byte) (int, error) {
	out := make([]byte, 0, len(p)+1)
	for _, b := range p {
		if w.lead {
			w.lead = false
			if 0x80 <= b && b <= 0x9f {
				continue
			}
			out = append(out, 0xc2)
		}
		switch {
		case b == 0xc2:
			w.lead = true
		case b < 0x20 && b != '\n' && b != '\t', b == 0x7f:
		default:
			out = append(out, b)
		}
	}
	if _, err := w.to.Write(out); err != nil {
		return 0, err
	}
	return len(p), nil
}

// cleanArgs cleans the arguments of a format.
func cleanArgs(args []any) []any {
	out := make([]any, len(args))
	for i, arg := range args {
		switch a := arg.(type) {
		case string:
			out[i] = clean(a)
		case error:
			out[i] = clean(a.Error())
		case fmt.Stringer:
			out[i] = clean(a.String())
		case []string:
			all := make([]string, len(a))
			for j := range a {
				all[j] = clean(a[j])
			}
			out[i] = all
		default:
			out[i] = arg
		}
	}
	return out
}
