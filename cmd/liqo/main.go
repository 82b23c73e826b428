// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

// Command liqo is every process that runs inside a cluster; the subcommand, or the name it is called by, says which.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	_ "golang.org/x/crypto/x509roots/fallback" // the image is scratch: it holds no CA roots

	"liqo.io/liqo/internal/app"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := app.Command(os.Args).ExecuteContext(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "liqo:", err)
		stop()
		os.Exit(1)
	}
}
