// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"encoding/json"
	"fmt"
	"os"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/api/resource"

	"liqo.io/liqo/internal/mover"
)

// newMoverCommand returns the program of the pods of `liqoctl move volume`. They have no permissions and no token.
func newMoverCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "mover", Short: "Serve the files of a volume, or copy them to another one", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newMoverSource(), newMoverTarget())
	return cmd
}

// addMoverFlags adds the flags of both ends.
func addMoverFlags(fs *pflag.FlagSet, folder *string, link *mover.Link) {
	fs.StringVar(folder, "volume", "/volume", "where the volume is mounted")
	fs.StringVar(&link.Keys, "keys", "/keys", "where the keys of this end are mounted")
	fs.StringVar(&link.Listen, "listen", "", "where the other end connects to, unless --connect is set")
	fs.StringVar(&link.Connect, "connect", "", "where the other end listens")
}

func newMoverSource() *cobra.Command {
	var o mover.SourceOptions
	cmd := &cobra.Command{
		Use: "source", Short: "Serve the files of a volume", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return mover.Serve(cmd.Context(), o) },
	}
	addMoverFlags(cmd.Flags(), &o.Folder, &o.Link)
	cmd.Flags().DurationVar(&o.Idle, "idle", 0, "how long without a request until the process ends; 0 for 15 minutes")
	return cmd
}

func newMoverTarget() *cobra.Command {
	var o mover.TargetOptions
	var limit, file string
	cmd := &cobra.Command{
		Use: "target", Short: "Make a volume equal to that of the source", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			most, err := resource.ParseQuantity(limit)
			if err != nil {
				return fmt.Errorf("reading --limit: %w", err)
			}
			out := json.NewEncoder(cmd.OutOrStdout())
			o.Limit, o.Report = most.Value(), func(p mover.Progress) { _ = out.Encode(p) }
			end, err := mover.Fetch(cmd.Context(), o)
			if err != nil {
				return err
			}
			message, err := json.Marshal(end)
			if err != nil {
				return err
			}
			return os.WriteFile(file, message, 0o600)
		},
	}
	addMoverFlags(cmd.Flags(), &o.Folder, &o.Link)
	cmd.Flags().StringVar(&limit, "limit", "0", "how much may be written")
	cmd.Flags().StringVar(&file, "result", "/dev/termination-log", "where the sums of the copied files are written")
	return cmd
}
