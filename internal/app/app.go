// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

// Package app turns rooms into processes: one file per role, each a table of contents of what runs in it.
package app

import (
	"path/filepath"

	"github.com/spf13/cobra"

	"liqo.io/liqo/internal/app/kubelet"
	"liqo.io/liqo/internal/app/program"
)

// aliases are the names of the original's binaries, which manifests written for it still call.
var aliases = map[string]string{
	"liqo-controller-manager": "controller-manager",
	"virtual-kubelet":         "virtual-kubelet",
	"crd-replicator":          "crd-replicator",
	"fabric":                  "fabric",
	"uninstaller":             "uninstaller",
	"proxy":                   "proxy",
}

// Command is the program for the given command line: argv[0] chooses the role when it is the name of one.
func Command(argv []string) *cobra.Command {
	root := program.Complete(&cobra.Command{Use: "liqo", Short: "The in-cluster processes of Liqo"})
	root.AddCommand(controllerManager(), crdReplicator(), kubelet.Command(), newGatewayCommand(), newFabricCommand(), newProxyCommand(), newUninstallerCommand(), newProbeCommand())
	args := argv[1:]
	if role, ok := aliases[filepath.Base(argv[0])]; ok {
		args = append([]string{role}, args...)
	}
	root.SetArgs(args)
	return root
}
