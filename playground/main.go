// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

// Playground runs real Kubernetes clusters on one Linux machine. Each node is a set of namespaces.
package main

import (
	"embed"
	"os"

	"liqo.io/liqo/playground/internal/cli"
)

// sources are the sources of the programs that the playground builds.
//
//go:embed go.mod go.sum hyperkube metrics-server kubectl pause httpd
var sources embed.FS

func main() { os.Exit(cli.Main(sources)) }
