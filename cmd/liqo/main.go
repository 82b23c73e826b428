// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

// Command liqo is every process that runs inside a cluster; the subcommand, or the name it is called by, says which.
package main

import (
	"os"

	"liqo.io/liqo/internal/app"
	"liqo.io/liqo/internal/app/program"
)

func main() {
	program.Main(app.Command(os.Args))
}
