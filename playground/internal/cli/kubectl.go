// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"liqo.io/liqo/playground/internal/home"
)

func kubectlCommand() *cobra.Command {
	return &cobra.Command{
		Use: "kubectl CLUSTER ARGS…", Short: "Run kubectl with a cluster's kubeconfig",
		DisableFlagParsing: true, Args: cobra.MinimumNArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			h, err := home.Open()
			if err != nil {
				return err
			}
			c, err := h.Load(args[0])
			if err != nil {
				return err
			}
			path := h.KubernetesProgram(c.Release(), "kubectl")
			argv := append([]string{path, "--kubeconfig", h.Kubeconfig(args[0])}, args[1:]...)
			return fmt.Errorf("running %s: %w", path, unix.Exec(path, argv, withoutProxy(h)))
		},
	}
}

// withoutProxy returns the environment, with NO_PROXY for the world network.
func withoutProxy(h home.Home) []string {
	hosts := strings.Trim(os.Getenv("NO_PROXY")+","+h.World.IPv4.String()+","+h.World.IPv6.String(), ",")
	return append(os.Environ(), "NO_PROXY="+hosts)
}

func kubeconfigCommand() *cobra.Command {
	var show bool
	cmd := &cobra.Command{
		Use: "kubeconfig CLUSTER", Short: "Print the path of a cluster's kubeconfig", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			h, err := home.Open()
			if err != nil {
				return err
			}
			if _, err := h.Load(args[0]); err != nil {
				return err
			}
			if !show {
				fmt.Fprintln(cmd.OutOrStdout(), h.Kubeconfig(args[0]))
				return nil
			}
			data, err := os.ReadFile(h.Kubeconfig(args[0]))
			if err != nil {
				return fmt.Errorf("reading the kubeconfig: %w", err)
			}
			_, err = cmd.OutOrStdout().Write(data)
			return err
		},
	}
	cmd.Flags().BoolVar(&show, "show", false, "print the file itself")
	return cmd
}
