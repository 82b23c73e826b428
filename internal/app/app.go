// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

// Package app composes the components into processes: one file per role, each a table of contents of the controllers of that role.
package app

import (
	"path/filepath"

	"github.com/spf13/cobra"

	"liqo.io/liqo/internal/app/kubelet"
	"liqo.io/liqo/internal/app/program"
)

// aliases are the names of the original's binaries. Manifests written for the original still run them.
var aliases = map[string]string{
	"liqo-controller-manager": "controller-manager",
	"virtual-kubelet":         "virtual-kubelet",
	"crd-replicator":          "crd-replicator",
	"fabric":                  "fabric",
	"uninstaller":             "uninstaller",
	"proxy":                   "proxy",
	"metric-agent":            "metric-agent",
}

// Command returns the program for the command line: argv[0] selects the role if it is the name of a role.
func Command(argv []string) *cobra.Command {
	root := program.Complete(&cobra.Command{Use: "liqo", Short: "The in-cluster processes of Liqo"})
	root.AddCommand(controllerManager(), crdReplicator(), kubelet.Command(), newGatewayCommand(), newFabricCommand(), newProxyCommand(), newMetricAgentCommand(), newUninstallerCommand(), newProbeCommand(), newMoverCommand(), newBenchCommand())
	args := argv[1:]
	if role, ok := aliases[filepath.Base(argv[0])]; ok {
		args = append([]string{role}, args...)
	}
	root.SetArgs(args)
	return root
}
