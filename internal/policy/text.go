// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// Limits of texts that another cluster wrote, in bytes.
const (
	// MaxForeignMessage is that of a message: what the events API accepts as a note.
	MaxForeignMessage = 1024
	// MaxForeignReason is that of a reason, and of a name of a component.
	MaxForeignReason = 128
	// MaxForeignName is that of a name of an object or a host.
	MaxForeignName = 253
)

// cutMark ends a text that was cut.
const cutMark = "…"

// CleanText returns a text of another cluster as it may be stored and shown here: valid UTF-8 of at most limit bytes, without characters
// that command a terminal or turn the direction of what follows. Lines and tabs stay.
func CleanText(text string, limit int) string {
	return cleaned(text, limit, func(r rune) rune {
		if r == '\n' || r == '\t' {
			return r
		}
		return -1
	})
}

// CleanLine is CleanText for what is one line.
func CleanLine(text string, limit int) string {
	return cleaned(text, limit, func(r rune) rune {
		if r == '\n' || r == '\t' || r == '\r' || r == '\u2028' || r == '\u2029' {
			return ' '
		}
		return -1
	})
}

// cleaned replaces each character that commands by what instead returns, -1 for nothing.
func cleaned(text string, limit int, instead func(rune) rune) string {
	cut := false
	if most := limit + utf8.UTFMax; len(text) > 4*most { // what is cut anyway is not looked at
		text, cut = text[:4*most], true
	}
	if !utf8.ValidString(text) || strings.IndexFunc(text, commands) >= 0 {
		text = strings.Map(func(r rune) rune {
			if !commands(r) {
				return r
			}
			return instead(r)
		}, strings.ToValidUTF8(text, ""))
	}
	if len(text) <= limit && !cut {
		return text
	}
	if limit < len(cutMark) {
		return ""
	}
	return strings.ToValidUTF8(text[:min(len(text), limit-len(cutMark))], "") + cutMark
}

// commands reports whether a terminal does something else with a character than to show it: it moves, colours, or turns the text round.
func commands(r rune) bool {
	switch {
	case unicode.IsControl(r), r == '\u2028', r == '\u2029':
		return true
	case r == '\u061c', r == '\u200e', r == '\u200f', '\u202a' <= r && r <= '\u202e', '\u2066' <= r && r <= '\u2069', r == '\ufeff':
		return true
	}
	return false
}
