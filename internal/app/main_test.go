// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"os"
	"testing"

	"liqo.io/liqo/internal/app/program"
	"liqo.io/liqo/internal/testkit"
)

// asProgram makes the test binary be the program that it tests, for processes that a test starts and kills.
const asProgram = "LIQO_TEST_AS_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) == "" {
		testkit.Main(m)
	}
	program.Main(Command(os.Args))
	os.Exit(0)
}
