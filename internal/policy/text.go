// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// Limits of texts from another cluster, in bytes.
const (
	// MaxForeignMessage is the limit of a message: that of a note in the events API.
	MaxForeignMessage = 1024
	// MaxForeignReason is the limit of a reason, and of the name of a component.
	MaxForeignReason = 128
	// MaxForeignName is the limit of the name of an object or a host.
	MaxForeignName = 253
)

// cutMark marks the end of a truncated text.
const cutMark = "…"

// CleanText returns a text of another cluster sanitized for storage and display: valid UTF-8 of at most limit bytes, without
// characters that control a terminal or change the direction of the following text. Newlines and tabs stay.
func CleanText(text string, limit int) string {
	return cleaned(text, limit, func(r rune) rune {
		if r == '\n' || r == '\t' {
			return r
		}
		return -1
	})
}

// CleanLine returns a text sanitized like CleanText, on a single line.
func CleanLine(text string, limit int) string {
	return cleaned(text, limit, func(r rune) rune {
		if r == '\n' || r == '\t' || r == '\r' || r == '\u2028' || r == '\u2029' {
			return ' '
		}
		return -1
	})
}

// cleaned replaces each control character by the result of instead; -1 removes it.
func cleaned(text string, limit int, instead func(rune) rune) string {
	cut := false
	if most := limit + utf8.UTFMax; len(text) > 4*most { // truncated parts need no check
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

// commands reports whether a character controls a terminal instead of being printed: it moves, colours, or reverses the text.
func commands(r rune) bool {
	switch {
	case unicode.IsControl(r), r == '\u2028', r == '\u2029':
		return true
	case r == '\u061c', r == '\u200e', r == '\u200f', '\u202a' <= r && r <= '\u202e', '\u2066' <= r && r <= '\u2069', r == '\ufeff':
		return true
	}
	return false
}
