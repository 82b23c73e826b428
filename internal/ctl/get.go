// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package ctl

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"liqo.io/liqo/internal/ctl/out"
)

// retrieval holds the common options of the get commands, which print one raw value.
type retrieval struct {
	placement
	peer    string
	timeout time.Duration
}

func (c *cli) newGetCommand() *cobra.Command {
	o := &retrieval{}
	parent := newGroup("get", "Print one value that others need", c.getNonce(o), c.getKubeconfig(o))
	parent.PersistentFlags().StringVarP(&o.namespace, "namespace", "n", "", "The tenant namespace of the other cluster, which is found by its labels if empty")
	return parent
}

// runRetrieval adds the flags of a command, and runs the command on the tenant namespace of the peer.
func (c *cli) runRetrieval(o *retrieval, cmd *cobra.Command, run func(ctx context.Context, s *Cluster, args []string) error) *cobra.Command {
	cmd.Flags().StringVar(&o.peer, "remote-cluster-id", "", "The ID of the other cluster")
	_ = cmd.MarkFlagRequired("remote-cluster-id")
	_ = cmd.RegisterFlagCompletionFunc("remote-cluster-id", c.completeClusters)
	cmd.Flags().DurationVar(&o.timeout, "timeout", 2*time.Minute, "Time to wait for the value")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		ctx, cancel := context.WithTimeout(cmd.Context(), o.timeout)
		defer cancel()
		s, err := c.newClusterOf(ctx, o.peer, o.placement)
		if err != nil {
			return err
		}
		if s.missing {
			return noTenantNamespace(o.peer)
		}
		return run(ctx, s, args)
	}
	return cmd
}

const noTenantNamespaceHint = "The first step of a peering creates it, such as liqoctl create nonce. Check --kubeconfig and --context"

func noTenantNamespace(other string) *out.Failure {
	return out.Fail("tenant namespace of %s not found", other).
		Hint("%s", noTenantNamespaceHint)
}
