// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

// Package repeatable makes the property tests of packages whose tests import it draw the same values in each run, so that a change is not
// blamed for a rare failure that it did not cause. LIQO_RANDOM=1 draws other values in each run; `-rapid.seed` takes precedence.
package repeatable

import (
	"flag"
	"os"

	_ "pgregory.net/rapid" // defines the flag
)

func init() {
	if os.Getenv("LIQO_RANDOM") != "" {
		return
	}
	if err := flag.Set("rapid.seed", "1"); err != nil {
		panic(err) // the library renamed the flag
	}
}
