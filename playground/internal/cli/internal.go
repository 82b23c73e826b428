// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"github.com/spf13/cobra"

	"liqo.io/liqo/playground/internal/balance"
	"liqo.io/liqo/playground/internal/home"
	"liqo.io/liqo/playground/internal/node"
	"liqo.io/liqo/playground/internal/proc"
	"liqo.io/liqo/playground/internal/supervise"
)

// internalCommand returns the commands that the playground runs itself.
func internalCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "internal", Hidden: true}
	cmd.AddCommand(
		&cobra.Command{
			Use: "record PIDFILE COMMAND…", DisableFlagParsing: true, Args: cobra.MinimumNArgs(2),
			RunE: func(_ *cobra.Command, args []string) error { return proc.Record(args[0], args[1:]) },
		},
		&cobra.Command{
			Use: "node FOLDER [CGROUP]", Args: cobra.RangeArgs(1, 2),
			RunE: func(_ *cobra.Command, args []string) error { return node.Init(args[0], args[1:]...) },
		},
		&cobra.Command{
			Use: "control-plane FOLDER [CGROUP]", Args: cobra.RangeArgs(1, 2),
			RunE: func(_ *cobra.Command, args []string) error {
				if err := node.JoinGroup(args[1:]...); err != nil {
					return err
				}
				units, err := supervise.Load(args[0])
				if err != nil {
					return err
				}
				return supervise.Run(args[0], units)
			},
		},
		&cobra.Command{
			Use: "loadbalancer CLUSTER", Args: cobra.ExactArgs(1),
			RunE: func(cmd *cobra.Command, args []string) error {
				h, err := home.Open()
				if err != nil {
					return err
				}
				return balance.Run(cmd.Context(), h, args[0])
			},
		},
	)
	return cmd
}
