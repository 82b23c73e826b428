// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package network

import (
	"context"

	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/internal/ctl/cluster"
)

// GenerateConfiguration returns the command "generate configuration".
func GenerateConfiguration(c *cluster.Session, o *cluster.Generation) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "configuration",
		Aliases: []string{"config", "configurations"},
		Short:   "Print the Configuration with which another cluster knows the networks of this one",
		Example: "  liqoctl generate configuration > conf-rome.yaml",
		Args:    cobra.NoArgs,
		RunE:    o.WithTimeout(func(ctx context.Context) error { return runGenerateConfiguration(ctx, c, o) }),
	}
	o.AddFlags(cmd)
	return cmd
}

func runGenerateConfiguration(ctx context.Context, c *cluster.Session, o *cluster.Generation) error {
	kube, err := c.NewClient(ctx)
	if err != nil {
		return err
	}
	id, err := cluster.ClusterIdentity(ctx, kube, o.LiqoNamespace)
	if err != nil {
		return err
	}
	networks, err := OwnNetworks(ctx, kube, o.LiqoNamespace)
	if err != nil {
		return err
	}
	return c.PrintGenerated(o, NewConfiguration(client.ObjectKey{Name: id}, id, networks))
}
