// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"time"

	"github.com/spf13/cobra"

	"liqo.io/liqo/internal/probe"
)

// newProbeCommand returns the program of the pods of `liqoctl test network`. They have no permissions and no
// token.
func newProbeCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "reach", Short: "Answer to other pods, or ask who answers", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newProbeServe(), newProbeAsk())
	return cmd
}

func newProbeServe() *cobra.Command {
	var name, address string
	cmd := &cobra.Command{
		Use: "serve", Short: "Answer with a name", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			on, err := net.Listen("tcp", address)
			if err != nil {
				return err
			}
			return probe.Serve(cmd.Context(), on, name)
		},
	}
	cmd.Flags().StringVar(&name, "name", "", "answer to each request")
	cmd.Flags().StringVar(&address, "listen", ":8080", "where")
	return cmd
}

func newProbeAsk() *cobra.Command {
	var o probe.Options
	var file string
	cmd := &cobra.Command{
		Use: "ask TARGETS", Short: "Ask who answers at the targets, a list in JSON", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			var targets []probe.Target
			if err := json.Unmarshal([]byte(args[0]), &targets); err != nil {
				return fmt.Errorf("reading the targets: %w", err)
			}
			message, err := probe.NewResults(probe.Ask(cmd.Context(), targets, o)).Message()
			if err != nil {
				return err
			}
			if cmd.Context().Err() != nil {
				return errors.New("interrupted")
			}
			return os.WriteFile(file, message, 0o600)
		},
	}
	cmd.Flags().DurationVar(&o.For, "for", 0, "how long a target is asked until all have answered; 0 for 20 seconds")
	cmd.Flags().DurationVar(&o.Within, "within", 2*time.Minute, "time limit for all targets; longer for targets with several expected answers")
	cmd.Flags().StringVar(&file, "results", "/dev/termination-log", "where the results are written")
	return cmd
}
