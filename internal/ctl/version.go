// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package ctl

import (
	"fmt"

	"github.com/spf13/cobra"

	"liqo.io/liqo/internal/ctl/cluster"
)

func newVersionCommand(c *cluster.Session) *cobra.Command {
	var namespace string
	var clientOnly bool
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Print the version of this program and that of the installed Liqo",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			fmt.Fprintf(c.Result(), "Client version: %s\n", cluster.Version)
			if clientOnly {
				return nil
			}
			return c.ServerVersion(cmd.Context(), namespace)
		},
	}
	cluster.LiqoNamespace(cmd, &namespace)
	cmd.Flags().BoolVar(&clientOnly, "client", false, "Print only the version of this program")
	return cmd
}
