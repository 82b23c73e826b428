// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package ctl

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"liqo.io/liqo/internal/names"
)

// networkOptions hold the common options of the network commands.
type networkOptions struct {
	local, remote        clusterFlags
	timeout              time.Duration
	wait, skipValidation bool
	dryRunOptions
}

func (c *cli) newNetworkCommand() *cobra.Command {
	o := &networkOptions{}
	cmd := newGroup("network", "Connect the networks of two clusters, or disconnect them",
		c.networkInit(o), c.networkConnect(o), c.networkDisconnect(o), c.networkReset(o))
	fs := cmd.PersistentFlags()
	fs.DurationVar(&o.timeout, "timeout", 120*time.Second, "How long all of it may take")
	fs.BoolVar(&o.wait, "wait", true, "Wait until what was asked for is so, and not only asked for")
	fs.BoolVar(&o.skipValidation, "skip-validation", false, "Do not look at the templates of gateways first")
	o.dryRunOptions.addFlags(cmd, fs)
	const where = "The namespace where new things go, the tenant namespace of the other cluster if empty; and the only one that things are removed from"
	fs.StringVarP(&o.local.namespace, "namespace", "n", "", where)
	fs.StringVar(&o.local.liqoNamespace, "liqo-namespace", names.LiqoNamespace, "The namespace where Liqo is installed in")
	fs.StringVar(&o.remote.namespace, "remote-namespace", "", where+" (in the remote cluster)")
	fs.StringVar(&o.remote.liqoNamespace, "remote-liqo-namespace", names.LiqoNamespace, "The namespace where Liqo is installed in (in the remote cluster)")
	remoteFlags(cmd, &o.remote)
	return cmd
}

// runWithBoth is runBetween for commands that connect the clusters: their versions must be compatible.
func (c *cli) runWithBoth(ctx context.Context, o *networkOptions, run func(ctx context.Context, c *cli, local, remote *Cluster) error) error {
	return c.runBetween(ctx, o, toApply, func(ctx context.Context, c *cli, local, remote *Cluster) error {
		if err := fitTogether(ctx, local, remote); err != nil {
			return err
		}
		return run(ctx, c, local, remote)
	})
}

// runBetween runs a command on the two clusters, or its dry run, once their cluster IDs are resolved.
func (c *cli) runBetween(ctx context.Context, o *networkOptions, heading string, run func(ctx context.Context, c *cli, local, remote *Cluster) error) error {
	return c.withBoth(ctx, o.timeout, &o.local, &o.remote, func(ctx context.Context, local, remote *Cluster) error {
		return c.runOrPrint(ctx, &o.dryRunOptions, heading, func(ctx context.Context, c *cli) error { return run(ctx, c, local, remote) }, local, remote)
	})
}
