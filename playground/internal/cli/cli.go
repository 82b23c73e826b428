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
	err := newRootCommand(sources).ExecuteContext(ctx)
	var exit exitCode
	switch {
	case err == nil:
		return 0
	case ctx.Err() != nil:
		fmt.Fprintf(os.Stderr, "playground: interrupted; the same command continues, `%s down` removes everything\n", os.Args[0])
		return 130
	case errors.As(err, &exit):
		return int(exit) // the program printed its own error
	default:
		fmt.Fprintln(os.Stderr, "playground:", err)
		return 1
	}
}

// exitCode is the exit code of a program that was run for the user.
type exitCode int

func (e exitCode) Error() string { return fmt.Sprintf("exit code %d", int(e)) }

func newRootCommand(sources fs.FS) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "playground",
		Short: "Real Kubernetes clusters on one Linux machine",
		Long: `Real Kubernetes clusters on one Linux machine: no Docker, no registry, nothing leaves the machine.

  ` + os.Args[0] + ` up --clusters 2             two clusters, a and b, with one node each
  ` + os.Args[0] + ` kubectl a get pods -A       kubectl with the kubeconfig of a
  ` + os.Args[0] + ` down                        remove all clusters

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

func newBuilder(h home.Home, sources fs.FS, log *progress.Log) build.Builder {
	return build.Builder{Home: h, Sources: sources, Log: log}
}

func mustBeRoot() error {
	if os.Geteuid() != 0 {
		return errors.New("clusters consist of kernel namespaces, which need root: run this as root")
	}
	return nil
}

// lockHome waits until no other run changes files of the home, and locks the home.
func lockHome(h home.Home, log *progress.Log) (unlock func(), err error) {
	return h.Lock(func() { log.Print("waiting for another run of the playground") })
}

// lockClusters locks the home for a command that changes clusters. It fails unless the user is root and no other home uses the name of the
// playground.
func lockClusters(h home.Home, log *progress.Log) (unlock func(), err error) {
	if err := mustBeRoot(); err != nil {
		return nil, err
	}
	if unlock, err = lockHome(h, log); err != nil {
		return nil, err
	}
	if err := h.Claim(); err != nil {
		unlock()
		return nil, err
	}
	return unlock, nil
}

// selectClusters returns the clusters of a comma-separated list of names, and all clusters for an empty list.
func selectClusters(h home.Home, names string) ([]spec.Cluster, error) {
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
