// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package ctl

import (
	"context"

	"github.com/spf13/cobra"
)

func (c *cli) networkReset(o *networkOptions) *cobra.Command {
	return &cobra.Command{
		Use:   "reset",
		Short: "Remove the gateways between two clusters, and their Configurations",
		Long: "Remove the gateways between two clusters, and their Configurations.\n" +
			"Objects are found in all namespaces, or in those of --namespace and --remote-namespace.",
		Example: "  liqoctl network reset --remote-kubeconfig milan.kubeconfig",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := c.confirmUnless(cmd.Context(), o.isRequested(), "reset"); err != nil {
				return err
			}
			return c.runBetween(cmd.Context(), o, toDelete, func(ctx context.Context, c *cli, local, remote *Cluster) error {
				return c.removeAll(ctx, o, append(gatewaysBetween(local, remote), configurationsBetween(local, remote)...))
			})
		},
	}
}
