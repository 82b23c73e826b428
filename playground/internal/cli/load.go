// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"liqo.io/liqo/playground/internal/home"
	"liqo.io/liqo/playground/internal/node"
	"liqo.io/liqo/playground/internal/progress"
)

func loadCommand() *cobra.Command {
	return &cobra.Command{
		Use: "load IMAGE.tar [CLUSTERS]", Short: "Load an image archive (OCI or Docker) into every node of clusters a,b (default: all)",
		Args: cobra.RangeArgs(1, 2),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := mustBeRoot(); err != nil {
				return err
			}
			h, err := home.Open()
			if err != nil {
				return err
			}
			if _, err := os.Stat(args[0]); err != nil {
				return fmt.Errorf("reading the image: %w", err)
			}
			names := ""
			if len(args) == 2 {
				names = args[1]
			}
			clusters, err := selectClusters(h, names)
			if err != nil {
				return err
			}
			log := progress.New(os.Stderr)
			group, ctx := errgroup.WithContext(cmd.Context())
			for _, c := range clusters {
				for _, n := range c.Nodes() {
					group.Go(func() error {
						if err := node.LoadImage(ctx, h, n.Name, args[0]); err != nil {
							return err
						}
						log.Print("%s: loaded %s", n.Name, filepath.Base(args[0]))
						return nil
					})
				}
			}
			return group.Wait()
		},
	}
}
