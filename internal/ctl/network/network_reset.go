// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package network

import (
	"context"

	"github.com/spf13/cobra"

	"liqo.io/liqo/internal/ctl/cluster"
)

func networkReset(c *cluster.Session, o *NetworkOptions) *cobra.Command {
	return &cobra.Command{
		Use:   "reset",
		Short: "Remove the gateways between two clusters, and their Configurations",
		Long: "Remove the gateways between two clusters, and their Configurations.\n" +
			"Objects are found in all namespaces, or in those of --namespace and --remote-namespace.",
		Example: "  liqoctl network reset --remote-kubeconfig milan.kubeconfig",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := c.ConfirmUnless(cmd.Context(), o.IsRequested(), "reset"); err != nil {
				return err
			}
			return runBetween(cmd.Context(), c, o, cluster.ToDelete, func(ctx context.Context, c *cluster.Session, local, remote *cluster.Cluster) error {
				return removeAll(ctx, c, o, append(GatewaysBetween(local, remote), ConfigurationsBetween(local, remote)...))
			})
		},
	}
}
