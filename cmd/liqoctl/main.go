// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

// Command liqoctl installs Liqo, peers clusters and offloads namespaces. Under the name kubectl-liqo, the program is a kubectl plugin.
package main

import (
	"context"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"

	_ "k8s.io/client-go/plugin/pkg/client/auth" // registers the credential plugins of kubeconfigs

	"liqo.io/liqo/deploy"
	"liqo.io/liqo/internal/ctl"
)

func main() {
	debug.SetGCPercent(400) // a command exits before garbage matters
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	// A second signal terminates the program at once. AfterFunc has no effect before the first signal: stop is
	// otherwise called at the end only.
	context.AfterFunc(ctx, stop)
	err := ctl.Run(ctx, ctl.Options{
		Args: os.Args, Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr, Chart: deploy.Chart(),
	})
	if err != nil {
		os.Exit(1)
	}
}
