// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package ctl

import (
	"context"

	"github.com/spf13/cobra"
)

func (c *cli) networkReset(o *networkOptions) *cobra.Command {
	return &cobra.Command{
		Use:     "reset",
		Short:   "Remove the gateways between two clusters, and what each knows of the other's networks",
		Example: "  liqoctl network reset --remote-kubeconfig milan.kubeconfig",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := c.confirm("reset"); err != nil {
				return err
			}
			return c.between(cmd.Context(), o, func(ctx context.Context, local, remote *side) error {
				return reset(ctx, local, remote, o.wait)
			})
		},
	}
}

func reset(ctx context.Context, local, remote *side, wait bool) error {
	for _, s := range []*side{local, remote} {
		if s.missing {
			continue // there is nothing to delete
		}
		if err := s.demand(ctx, deletable("configurations")); err != nil {
			return err
		}
	}
	if err := disconnect(ctx, local, remote, wait); err != nil {
		return err
	}
	if err := local.forget(ctx, remote.id, wait); err != nil {
		return err
	}
	return remote.forget(ctx, local.id, wait)
}
