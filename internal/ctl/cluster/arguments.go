// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"strings"
)

// FlagValue returns the value of a flag among arguments, "" for none.
func FlagValue(command []string, flag string) string {
	for _, word := range command {
		if name, value, ok := strings.Cut(strings.TrimLeft(word, "-"), "="); ok && name == flag {
			return value
		}
	}
	return ""
}
