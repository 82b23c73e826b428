// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"

	"github.com/spf13/cobra"

	"liqo.io/liqo/playground/internal/home"
	"liqo.io/liqo/playground/internal/netns"
	"liqo.io/liqo/playground/internal/node"
	"liqo.io/liqo/playground/internal/proc"
)

func execCommand() *cobra.Command {
	return &cobra.Command{
		Use: "exec CLUSTER|NODE COMMAND…", Short: "Run a command in the world network with KUBECONFIG set, or inside a node",
		DisableFlagParsing: true, Args: cobra.MinimumNArgs(2),
		RunE: func(_ *cobra.Command, args []string) error {
			if err := mustBeRoot(); err != nil {
				return err
			}
			h, err := home.Open()
			if err != nil {
				return err
			}
			if isNodeName(args[0]) {
				return runInNode(h, args[0], args[1:])
			}
			if _, err := h.Load(args[0]); err != nil {
				return err
			}
			return netns.Do(h.World.Netns(), func() error {
				return runAttached(args[1:], "KUBECONFIG="+h.Kubeconfig(args[0]), searchPath(h))
			})
		},
	}
}

// runInNode runs a command in all namespaces of the node's first process. Programs of the playground, such as ctr, are found first.
func runInNode(h home.Home, name string, argv []string) error {
	pid := proc.PID(node.PIDFile(h, name))
	if pid == 0 {
		return fmt.Errorf("node %q is not running", name)
	}
	return runAttached(append([]string{"nsenter", "--all", "--target", strconv.Itoa(pid)}, argv...), searchPath(h))
}

// searchPath returns the environment variable by which programs of the playground are found before those of the machine.
func searchPath(h home.Home) string { return "PATH=" + h.Bin() + ":" + os.Getenv("PATH") }

// runAttached runs a command with the standard streams of this process.
func runAttached(argv []string, env ...string) error {
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Env = append(os.Environ(), env...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	err := cmd.Run()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		return exitCode(exit.ExitCode())
	}
	return err
}
