// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"fmt"
	"io/fs"
	"os"

	"github.com/spf13/cobra"

	"liqo.io/liqo/playground/internal/home"
	"liqo.io/liqo/playground/internal/progress"
)

func buildCommand(sources fs.FS) *cobra.Command {
	return &cobra.Command{
		Use: "build", Short: "Build the programs and images that clusters need (up builds them, too)", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			h, err := home.Open()
			if err != nil {
				return err
			}
			log := progress.New(os.Stderr)
			unlock, err := lockHome(h, log)
			if err != nil {
				return err
			}
			defer unlock()
			if err := newBuilder(h, sources, log).BuildAll(cmd.Context()); err != nil {
				return err
			}
			log.Print("programs and images are up to date: %s", h.Root)
			return nil
		},
	}
}

func assetsCommand(sources fs.FS) *cobra.Command {
	return &cobra.Command{
		Use: "assets", Short: "Build etcd, kube-apiserver and kubectl only, and print their folder (KUBEBUILDER_ASSETS)", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			h, err := home.Open()
			if err != nil {
				return err
			}
			log := progress.New(os.Stderr)
			unlock, err := lockHome(h, log)
			if err != nil {
				return err
			}
			defer unlock()
			if err := newBuilder(h, sources, log).BuildAssets(cmd.Context()); err != nil {
				return err
			}
			fmt.Fprintln(cmd.OutOrStdout(), h.Bin())
			return nil
		},
	}
}
