// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

// Package cli is the playground's command line: one file per command.
package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"liqo.io/liqo/playground/internal/build"
	"liqo.io/liqo/playground/internal/home"
	"liqo.io/liqo/playground/internal/progress"
	"liqo.io/liqo/playground/internal/spec"
)

// Main runs the command line and returns the exit code.
func Main(sources fs.FS) int {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	err := root(sources).ExecuteContext(ctx)
	var exit exited
	switch {
	case err == nil:
		return 0
	case ctx.Err() != nil:
		fmt.Fprintf(os.Stderr, "playground: interrupted; the same command continues, `%s down` removes everything\n", os.Args[0])
		return 130
	case errors.As(err, &exit):
		return int(exit) // the program that ran has spoken for itself
	default:
		fmt.Fprintln(os.Stderr, "playground:", err)
		return 1
	}
}

// exited is the exit code of a program that was run for the user.
type exited int

func (e exited) Error() string { return fmt.Sprintf("exit code %d", int(e)) }

func root(sources fs.FS) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "playground",
		Short: "Real Kubernetes clusters on one Linux machine",
		Long: `Real Kubernetes clusters on one Linux machine: no Docker, no registry, nothing leaves the machine.

  ` + os.Args[0] + ` up --clusters 2             two clusters, a and b, with one node each
  ` + os.Args[0] + ` kubectl a get pods -A       kubectl with the kubeconfig of a
  ` + os.Args[0] + ` down                        leaves nothing

Files are in $LIQO_PLAYGROUND_HOME (default ~/.cache/liqo-playground).`,
		SilenceUsage: true, SilenceErrors: true,
	}
	cmd.AddCommand(
		buildCommand(sources), assetsCommand(sources), upCommand(sources), downCommand(), statusCommand(),
		kubectlCommand(), kubeconfigCommand(), loadCommand(), execCommand(), failCommand(), healCommand(), moveCommand(),
		captureCommand(), internalCommand(),
	)
	return cmd
}

func builder(h home.Home, sources fs.FS, log *progress.Log) build.Builder {
	return build.Builder{Home: h, Sources: sources, Log: log}
}

func mustBeRoot() error {
	if os.Geteuid() != 0 {
		return errors.New("clusters are made of kernel namespaces: run this as root")
	}
	return nil
}

// lock makes this the only run that changes files of this home.
func lock(h home.Home, log *progress.Log) (unlock func(), err error) {
	return h.Lock(func() { log.Say("waiting for another run of the playground") })
}

// control is lock for what changes clusters: as root, and only those of this home.
func control(h home.Home, log *progress.Log) (unlock func(), err error) {
	if err := mustBeRoot(); err != nil {
		return nil, err
	}
	if unlock, err = lock(h, log); err != nil {
		return nil, err
	}
	if err := h.Claim(); err != nil {
		unlock()
		return nil, err
	}
	return unlock, nil
}

// chosen are the clusters that a list of names means; an empty list means all.
func chosen(h home.Home, names string) ([]spec.Cluster, error) {
	if names == "" {
		return h.Clusters()
	}
	var clusters []spec.Cluster
	for name := range strings.SplitSeq(names, ",") {
		c, err := h.Load(name)
		if err != nil {
			return nil, err
		}
		clusters = append(clusters, c)
	}
	return clusters, nil
}
