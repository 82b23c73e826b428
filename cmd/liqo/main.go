// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

// Command liqo runs every process of Liqo inside a cluster, selected by the subcommand or the name of the executable.
package main

import (
	"os"

	"liqo.io/liqo/internal/app"
	"liqo.io/liqo/internal/app/program"
)

func main() {
	program.Main(app.Command(os.Args))
}
