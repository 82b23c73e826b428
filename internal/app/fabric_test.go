// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"testing"
)

func TestFabricInvalidFlags(t *testing.T) {
	const ping = "--ping-interval is not below zero, and --ping-loss-threshold above"
	for want, args := range map[string][][]string{
		"--nodename is missing: it is the name of this node":     {{}},
		`invalid --peer-access "some": must be all or offloaded`: {{"--nodename=n", "--peer-access=some"}},
		ping: {{"--nodename=n", "--ping-interval=-1s"}, {"--nodename=n", "--ping-loss-threshold=0"}},
	} {
		for _, given := range args {
			cmd := newFabricCommand()
			cmd.SetArgs(given)
			cmd.SilenceUsage, cmd.SilenceErrors = true, true
			if err := cmd.ExecuteContext(t.Context()); err == nil || err.Error() != want {
				t.Errorf("%q: %v, want %s", given, err, want)
			}
		}
	}
}
