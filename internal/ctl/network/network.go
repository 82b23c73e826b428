// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

// Package network holds the commands about the network of two clusters: init, connect, disconnect, reset, the gateways and the test of the network.
package network

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"liqo.io/liqo/internal/ctl/cluster"
	"liqo.io/liqo/internal/names"
)

// NetworkOptions hold the common options of the network commands.
type NetworkOptions struct {
	local, remote        cluster.ClusterFlags
	timeout              time.Duration
	Wait, SkipValidation bool
	cluster.DryRunOptions
}

// NewNetworkCommand returns the command "network".
func NewNetworkCommand(c *cluster.Session) *cobra.Command {
	o := &NetworkOptions{}
	cmd := cluster.NewGroup("network", "Connect the networks of two clusters, or disconnect them",
		networkInit(c, o), networkConnect(c, o), networkDisconnect(c, o), networkReset(c, o))
	fs := cmd.PersistentFlags()
	fs.DurationVar(&o.timeout, "timeout", 120*time.Second, "How long all of it may take")
	fs.BoolVar(&o.Wait, "wait", true, "Wait until what was asked for is so, and not only asked for")
	fs.BoolVar(&o.SkipValidation, "skip-validation", false, "Do not look at the templates of gateways first")
	o.DryRunOptions.AddFlags(fs)
	const where = "The namespace where new things go, the tenant namespace of the other cluster if empty; and the only one that things are removed from"
	fs.StringVarP(&o.local.Namespace, "namespace", "n", "", where)
	fs.StringVar(&o.local.LiqoNamespace, "liqo-namespace", names.LiqoNamespace, "The namespace where Liqo is installed in")
	fs.StringVar(&o.remote.Namespace, "remote-namespace", "", where+" (in the remote cluster)")
	fs.StringVar(&o.remote.LiqoNamespace, "remote-liqo-namespace", names.LiqoNamespace, "The namespace where Liqo is installed in (in the remote cluster)")
	cluster.RemoteFlags(cmd, &o.remote)
	return cmd
}

// runWithBoth is runBetween for commands that connect the clusters: their versions must be compatible.
func runWithBoth(ctx context.Context, c *cluster.Session, o *NetworkOptions, run func(ctx context.Context, c *cluster.Session, local, remote *cluster.Cluster) error) error {
	return runBetween(ctx, c, o, cluster.ToApply, func(ctx context.Context, c *cluster.Session, local, remote *cluster.Cluster) error {
		if err := cluster.FitTogether(ctx, local, remote); err != nil {
			return err
		}
		return run(ctx, c, local, remote)
	})
}

// runBetween runs a command on the two clusters, or its dry run, once their cluster IDs are resolved.
func runBetween(ctx context.Context, c *cluster.Session, o *NetworkOptions, heading string, run func(ctx context.Context, c *cluster.Session, local, remote *cluster.Cluster) error) error {
	return c.WithBoth(ctx, o.timeout, &o.local, &o.remote, func(ctx context.Context, local, remote *cluster.Cluster) error {
		return c.RunOrPrint(ctx, &o.DryRunOptions, heading, func(ctx context.Context, c *cluster.Session) error { return run(ctx, c, local, remote) }, local, remote)
	})
}
