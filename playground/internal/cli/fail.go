// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"liqo.io/liqo/playground/internal/cluster"
	"liqo.io/liqo/playground/internal/home"
	"liqo.io/liqo/playground/internal/netns"
	"liqo.io/liqo/playground/internal/node"
	"liqo.io/liqo/playground/internal/progress"
	"liqo.io/liqo/playground/internal/spec"
)

// fault is the target of fail and heal: a node or a program of a control plane, and the parts of the node.
type fault struct {
	home      home.Home
	cluster   spec.Cluster
	node      *spec.Node // nil if the target is a program of the control plane
	program   string
	network   bool
	processes bool
}

func failCommand() *cobra.Command {
	return faultCommand("fail", "Disconnect a node (--network), stop its processes (--processes), or stop a program of a control plane", fault.apply)
}

func healCommand() *cobra.Command {
	return faultCommand("heal", "Revert fail; without a flag for network and processes of a node", fault.revert)
}

func faultCommand(name, short string, do func(fault, context.Context) error) *cobra.Command {
	var f fault
	cmd := &cobra.Command{
		Use: name + " NODE|CLUSTER/apiserver", Short: short, Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			h, err := home.Open()
			if err != nil {
				return err
			}
			unlock, err := lockClusters(h, progress.New(os.Stderr))
			if err != nil {
				return err
			}
			defer unlock()
			f.home = h
			if err := f.parseTarget(args[0]); err != nil {
				return err
			}
			return do(f, cmd.Context())
		},
	}
	cmd.Flags().BoolVar(&f.network, "network", false, "the network link of the node (the default of fail)")
	cmd.Flags().BoolVar(&f.processes, "processes", false, "all processes of the node")
	return cmd
}

// parseTarget sets the node or the program of the target.
func (f *fault) parseTarget(target string) error {
	if name, program, ok := strings.Cut(target, "/"); ok {
		c, err := f.home.Load(name)
		f.cluster = c
		if err != nil {
			return err
		}
		f.program, err = cluster.Program(program)
		return err
	}
	if !isNodeName(target) {
		return fmt.Errorf("invalid target %q: must be a node (a1) or a program of a control plane (a/apiserver)", target)
	}
	c, err := f.home.Load(target[:1])
	if err != nil {
		return err
	}
	f.cluster = c
	for _, n := range c.Nodes() {
		if n.Name == target {
			f.node = &n
			return nil
		}
	}
	return fmt.Errorf("cluster %s has no node %q", c.Name, target)
}

func (f fault) apply(ctx context.Context) error {
	switch {
	case f.node == nil:
		return cluster.Fail(ctx, f.home, f.cluster, f.program)
	case f.processes && f.network:
		return errors.Join(f.setLink("down"), node.Stop(f.home, f.node.Name))
	case f.processes:
		return node.Stop(f.home, f.node.Name)
	default:
		return f.setLink("down")
	}
}

func (f fault) revert(ctx context.Context) error {
	if f.node == nil {
		return cluster.Heal(ctx, f.home, f.cluster, f.program)
	}
	if f.network || !f.processes {
		if err := f.setLink("up"); err != nil {
			return err
		}
	}
	if f.processes || !f.network {
		return node.Start(f.home, f.cluster, *f.node)
	}
	return nil
}

// setLink changes the peer of the node's link: the node loses the carrier and keeps its addresses and routes.
func (f fault) setLink(state string) error {
	return netns.Run(f.home.World.Netns(), fmt.Sprintf("ip link set %s %s", f.node.Name, state))
}
