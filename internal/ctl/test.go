// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package ctl

import (
	"time"

	"github.com/spf13/cobra"
)

// testOptions hold the common options of the test commands.
type testOptions struct {
	timeout  time.Duration
	failFast bool
}

func (c *cli) newTestCommand() *cobra.Command {
	o := &testOptions{}
	cmd := newGroup("test", "Check whether Liqo works", c.testNetwork(o))
	fs := cmd.PersistentFlags()
	fs.DurationVar(&o.timeout, "timeout", 5*time.Minute, "Time limit of the test; its objects are removed in any case")
	fs.BoolVar(&o.failFast, "fail-fast", false, "Stop as soon as something failed")
	return cmd
}
