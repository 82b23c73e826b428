// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

// Package deploy embeds the Helm chart: the CLI installs the version of its own build.
package deploy

import (
	"embed"
	"io/fs"
)

//go:embed all:chart
var files embed.FS

// Chart returns the root of the chart.
func Chart() fs.FS {
	chart, err := fs.Sub(files, "chart")
	if err != nil {
		panic(err) // the directory is embedded above
	}
	return chart
}
