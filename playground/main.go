// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

// Playground runs real Kubernetes clusters on one Linux machine, each node a set of namespaces.
package main

import (
	"embed"
	"os"

	"liqo.io/liqo/playground/internal/cli"
)

// sources lets the program build what clusters are made of wherever it is called.
//
//go:embed go.mod go.sum hyperkube kubectl pause httpd
var sources embed.FS

func main() { os.Exit(cli.Main(sources)) }
