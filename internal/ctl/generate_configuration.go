// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package ctl

import (
	"context"

	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

func (c *cli) generateConfiguration(o *generation) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "configuration",
		Aliases: []string{"config", "configurations"},
		Short:   "Print the Configuration with which another cluster knows the networks of this one",
		Example: "  liqoctl generate configuration > conf-rome.yaml",
		Args:    cobra.NoArgs,
		RunE:    o.withTimeout(func(ctx context.Context) error { return c.runGenerateConfiguration(ctx, o) }),
	}
	o.addFlags(cmd)
	return cmd
}

func (c *cli) runGenerateConfiguration(ctx context.Context, o *generation) error {
	kube, err := c.newClient(ctx)
	if err != nil {
		return err
	}
	id, err := clusterIdentity(ctx, kube, o.liqoNamespace)
	if err != nil {
		return err
	}
	networks, err := ownNetworks(ctx, kube, o.liqoNamespace)
	if err != nil {
		return err
	}
	return c.printGenerated(o, newConfiguration(client.ObjectKey{Name: id}, id, networks))
}
