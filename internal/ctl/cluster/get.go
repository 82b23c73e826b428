// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"liqo.io/liqo/internal/ctl/ui"
)

// Retrieval holds the common options of the get commands, which print one raw value.
type Retrieval struct {
	Placement
	Peer    string
	timeout time.Duration
}

// RunRetrieval adds the flags of a command, and runs the command on the tenant namespace of the peer.
func (c *Session) RunRetrieval(o *Retrieval, cmd *cobra.Command, run func(ctx context.Context, s *Cluster, args []string) error) *cobra.Command {
	cmd.Flags().StringVar(&o.Peer, "remote-cluster-id", "", "The ID of the other cluster")
	_ = cmd.MarkFlagRequired("remote-cluster-id")
	_ = cmd.RegisterFlagCompletionFunc("remote-cluster-id", c.CompleteClusters)
	cmd.Flags().DurationVar(&o.timeout, "timeout", 2*time.Minute, "Time to wait for the value")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		ctx, cancel := context.WithTimeout(cmd.Context(), o.timeout)
		defer cancel()
		s, err := c.NewClusterOf(ctx, o.Peer, o.Placement)
		if err != nil {
			return err
		}
		if s.Missing {
			return noTenantNamespace(o.Peer)
		}
		return run(ctx, s, args)
	}
	return cmd
}

// NoTenantNamespaceHint is the hint for a peer without a tenant namespace.
const NoTenantNamespaceHint = "The first step of a peering creates it, such as liqoctl create nonce. Check --kubeconfig and --context"

func noTenantNamespace(other string) *ui.Failure {
	return ui.Fail("tenant namespace of %s not found", other).
		Hint("%s", NoTenantNamespaceHint)
}
