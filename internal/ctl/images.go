// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package ctl

import (
	"fmt"

	"github.com/spf13/cobra"

	"liqo.io/liqo/internal/ctl/cluster"
	"liqo.io/liqo/internal/ctl/install"
)

// newImagesCommand returns the command that lists the images of an installation, or copies them for a cluster without access to their registry.
func newImagesCommand(c *cluster.Session) *cobra.Command {
	o := &install.Options{Namespace: "liqo"}
	var registry string
	cmd := &cobra.Command{
		Use:   "images",
		Short: "List the images that an installation needs, or copy them to a registry",
		Long: "List the images that an installation with the same flags needs, or copy them to a registry.\n\n" +
			"The copies have all platforms, the same digests and the signatures. The chart of --chart is copied as well.",
		Example: "  liqoctl images\n" +
			"  liqoctl images --chart oci://registry.example.com/liqo/charts/liqo --version v1.2.3 --copy-to mirror.example.com/liqo",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			i := install.New(*o, install.Environment{Printer: c.Printer, Chart: c.Chart, CLIVersion: cluster.Version, Stdin: c.Stdin})
			references, err := i.ListImages(cmd.Context())
			if err == nil && registry != "" {
				references, err = i.CopyImages(cmd.Context(), references, registry)
			}
			for _, reference := range references {
				fmt.Fprintln(c.Result(), reference)
			}
			return err
		},
	}
	chartFlags(cmd.Flags(), o)
	cmd.Flags().StringVar(&registry, "copy-to", "", "A registry, and a folder in it, to copy the images to, such as mirror.example.com/liqo")
	return cmd
}
