// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package ctl

import (
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"liqo.io/liqo/internal/ctl/cluster"
)

// addCompletions adds completions to all commands, by the names and the types of their flags and by the name of the program.
func addCompletions(c *cluster.Session, root *cobra.Command) {
	root.CompletionOptions.SetDefaultShellCompDirective(cobra.ShellCompDirectiveNoFileComp)
	var visit func(*cobra.Command)
	visit = func(cmd *cobra.Command) {
		if c.Executable != "liqoctl" {
			cmd.Example = strings.ReplaceAll(cmd.Example, "liqoctl ", c.Executable+" ")
		}
		for _, flags := range []*pflag.FlagSet{cmd.PersistentFlags(), cmd.LocalNonPersistentFlags()} {
			flags.VisitAll(func(f *pflag.Flag) {
				if complete := c.FlagCompletion(f); complete != nil {
					_ = cmd.RegisterFlagCompletionFunc(f.Name, complete) // fails if the command has an own completion
				}
			})
		}
		for _, sub := range cmd.Commands() {
			visit(sub)
		}
	}
	visit(root)
}
