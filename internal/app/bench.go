// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"

	"github.com/spf13/cobra"

	"liqo.io/liqo/internal/benchmark"
)

// newBenchCommand returns the program of the pods of `liqoctl bench`. They have no permissions and no token of a ServiceAccount.
func newBenchCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "bench", Short: "Send data to other pods, or measure how fast theirs arrives", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newBenchServe(), newBenchMeasure())
	return cmd
}

func newBenchServe() *cobra.Command {
	var token, address string
	cmd := &cobra.Command{
		Use: "serve", Short: "Send data to those who have the token, or echo theirs", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if token == "" {
				return errors.New("--token is empty: all could make this pod send")
			}
			on, err := net.Listen("tcp", address)
			if err != nil {
				return err
			}
			return benchmark.Serve(cmd.Context(), on, token)
		},
	}
	cmd.Flags().StringVar(&token, "token", "", "what clients have to know")
	cmd.Flags().StringVar(&address, "listen", ":8080", "where")
	return cmd
}

func newBenchMeasure() *cobra.Command {
	var file string
	cmd := &cobra.Command{
		Use: "measure PLAN", Short: "Measure connections to other pods, as a plan in JSON says", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			var plan benchmark.Plan
			if err := json.Unmarshal([]byte(args[0]), &plan); err != nil {
				return fmt.Errorf("reading the plan: %w", err)
			}
			message, err := json.Marshal(benchmark.Measure(cmd.Context(), plan))
			if err != nil {
				return err
			}
			if cmd.Context().Err() != nil {
				return errors.New("interrupted")
			}
			return os.WriteFile(file, message, 0o600)
		},
	}
	cmd.Flags().StringVar(&file, "results", "/dev/termination-log", "where the results are written")
	return cmd
}
