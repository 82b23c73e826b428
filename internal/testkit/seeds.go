// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package testkit

import (
	"os"
	"strconv"
	"testing"
)

// Seeds is the number of seeds of a story, or LIQO_SEEDS: soak runs more.
func Seeds(t testing.TB, usual int) int {
	t.Helper()
	text := os.Getenv("LIQO_SEEDS")
	if text == "" {
		return usual
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		t.Fatalf("reading LIQO_SEEDS: %v", err)
	}
	return n
}
