// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"fmt"
	"io/fs"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"liqo.io/liqo/playground/internal/home"
	"liqo.io/liqo/playground/internal/progress"
	"liqo.io/liqo/playground/internal/spec"
)

func buildCommand(sources fs.FS) *cobra.Command {
	var version string
	var cnis []string
	cmd := &cobra.Command{
		Use: "build", Short: "Build the programs and images that clusters need (up builds them, too)", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			for _, cni := range cnis {
				if !spec.CNI(cni).RunsInPods() {
					return fmt.Errorf("invalid --cni %q: must be flannel, kube-router or cilium", cni)
				}
			}
			release, err := spec.Release(version)
			if err != nil {
				return err
			}
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
			b := newBuilder(h, sources, log)
			if err := b.BuildAll(cmd.Context(), release); err != nil {
				return err
			}
			for _, cni := range cnis {
				if err := b.BuildCNI(cmd.Context(), spec.CNI(cni)); err != nil {
					return err
				}
			}
			log.Print("programs and images are up to date: %s", h.Root)
			return nil
		},
	}
	cmd.Flags().StringSliceVar(&cnis, "cni", nil, "also build these CNIs: flannel, kube-router, cilium")
	releaseFlag(cmd.Flags(), &version)
	return cmd
}

// releaseFlag adds the flag that selects a Kubernetes release.
func releaseFlag(flags *pflag.FlagSet, version *string) {
	flags.StringVar(version, "kubernetes", spec.Kubernetes, "release of Kubernetes, or its minor version: "+strings.Join(spec.Releases, ", "))
}

func assetsCommand(sources fs.FS) *cobra.Command {
	var version string
	cmd := &cobra.Command{
		Use: "assets", Short: "Build etcd, kube-apiserver and kubectl only, and print their folder (KUBEBUILDER_ASSETS)", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			release, err := spec.Release(version)
			if err != nil {
				return err
			}
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
			if err := newBuilder(h, sources, log).BuildAssets(cmd.Context(), release); err != nil {
				return err
			}
			fmt.Fprintln(cmd.OutOrStdout(), h.Assets(release))
			return nil
		},
	}
	releaseFlag(cmd.Flags(), &version)
	return cmd
}
