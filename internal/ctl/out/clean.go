// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package out

import (
	"fmt"
	"io"

	"liqo.io/liqo/internal/policy"
)

// maxText is far more than any line has.
const maxText = 64 << 10

// clean returns a text that commands no terminal: much of what is printed was written by a peer. Colours are added afterwards.
func clean(text string) string { return policy.CleanText(text, maxText) }

// cleanWriter passes documents on without what commands a terminal. In UTF-8 that is single bytes, and the second one after 0xc2.
type cleanWriter struct {
	to   io.Writer
	lead bool // 0xc2 was the last byte, and is not passed on yet
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

// cleanArgs returns what is put into a format of ours.
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
