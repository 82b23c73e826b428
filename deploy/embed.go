// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

// Package deploy carries the Helm chart, so that the CLI installs the version it was built with.
package deploy

import (
	"embed"
	"io/fs"
)

//go:embed all:chart
var files embed.FS

// Chart is the root of the chart.
func Chart() fs.FS {
	chart, err := fs.Sub(files, "chart")
	if err != nil {
		panic(err) // the name above is the name below
	}
	return chart
}
