// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"os"

	"github.com/spf13/cobra"

	"liqo.io/liqo/playground/internal/capture"
	"liqo.io/liqo/playground/internal/home"
	"liqo.io/liqo/playground/internal/netns"
	"liqo.io/liqo/playground/internal/spec"
)

func captureCommand() *cobra.Command {
	return &cobra.Command{
		Use: "capture FILE.pcap", Short: "Record every packet between the nodes until interrupted", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := mustBeRoot(); err != nil {
				return err
			}
			h, err := home.Open()
			if err != nil {
				return err
			}
			out, err := os.Create(args[0])
			if err != nil {
				return err
			}
			defer out.Close()
			return netns.Do(h.World.Netns(), func() error { return capture.Run(cmd.Context(), spec.Bridge, out) })
		},
	}
}
