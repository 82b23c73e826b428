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

// fault is what fails or heals.
type fault struct {
	home      home.Home
	cluster   spec.Cluster
	node      *spec.Node // nil: a program of the control plane
	program   string
	network   bool
	processes bool
}

func failCommand() *cobra.Command {
	return faultCommand("fail", "Cut a node off (--network), stop it (--processes), or stop a/apiserver, a/etcd, …", fault.fail)
}

func healCommand() *cobra.Command {
	return faultCommand("heal", "Undo fail; without a flag everything of a node", fault.heal)
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
			unlock, err := control(h, progress.New(os.Stderr))
			if err != nil {
				return err
			}
			defer unlock()
			f.home = h
			if err := f.aim(args[0]); err != nil {
				return err
			}
			return do(f, cmd.Context())
		},
	}
	cmd.Flags().BoolVar(&f.network, "network", false, "the node's cable (the default of fail)")
	cmd.Flags().BoolVar(&f.processes, "processes", false, "everything that runs on the node")
	return cmd
}

// aim finds the node or the program that a target names.
func (f *fault) aim(target string) error {
	if name, program, ok := strings.Cut(target, "/"); ok {
		c, err := f.home.Load(name)
		f.cluster = c
		if err != nil {
			return err
		}
		f.program, err = cluster.Program(program)
		return err
	}
	if !isNode(target) {
		return fmt.Errorf("a target is a node (a1) or a program of a cluster (a/apiserver): %q", target)
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

func (f fault) fail(ctx context.Context) error {
	switch {
	case f.node == nil:
		return cluster.Fail(ctx, f.home, f.cluster, f.program)
	case f.processes && f.network:
		return errors.Join(f.cable("down"), node.Stop(f.home, f.node.Name))
	case f.processes:
		return node.Stop(f.home, f.node.Name)
	default:
		return f.cable("down")
	}
}

func (f fault) heal(ctx context.Context) error {
	if f.node == nil {
		return cluster.Heal(ctx, f.home, f.cluster, f.program)
	}
	if f.network || !f.processes {
		if err := f.cable("up"); err != nil {
			return err
		}
	}
	if f.processes || !f.network {
		return node.Start(f.home, f.cluster, *f.node)
	}
	return nil
}

// cable is pulled at the world's end: the node sees its link without carrier and keeps its configuration.
func (f fault) cable(state string) error {
	return netns.Run(f.home.World.Netns(), fmt.Sprintf("ip link set %s %s", f.node.Name, state))
}
