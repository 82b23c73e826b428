// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package ctl

import (
	"time"

	"github.com/spf13/cobra"

	"liqo.io/liqo/internal/ctl/cluster"
	"liqo.io/liqo/internal/ctl/network"
)

func newTestCommand(c *cluster.Session) *cobra.Command {
	o := &network.TestOptions{}
	cmd := cluster.NewGroup("test", "Check whether Liqo works", network.TestNetwork(c, o))
	fs := cmd.PersistentFlags()
	fs.DurationVar(&o.Timeout, "timeout", 5*time.Minute, "Time limit of the test; its objects are removed in any case")
	fs.BoolVar(&o.FailFast, "fail-fast", false, "Stop as soon as something failed")
	return cmd
}
