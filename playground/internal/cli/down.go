// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"liqo.io/liqo/playground/internal/cluster"
	"liqo.io/liqo/playground/internal/home"
	"liqo.io/liqo/playground/internal/netns"
	"liqo.io/liqo/playground/internal/node"
	"liqo.io/liqo/playground/internal/progress"
	"liqo.io/liqo/playground/internal/world"
)

func downCommand() *cobra.Command {
	var names string
	cmd := &cobra.Command{
		Use: "down", Short: "Remove clusters (default: all) and everything that belongs to them", Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			h, err := home.Open()
			if err != nil {
				return err
			}
			log := progress.New(os.Stderr)
			unlock, err := lockClusters(h, log)
			if err != nil {
				return err
			}
			defer unlock()
			return removeClusters(h, names, log)
		},
	}
	cmd.Flags().StringVar(&names, "clusters", "", "names of clusters, a,b (default: all)")
	return cmd
}

// removeClusters removes what exists, not what the descriptions of clusters list: a killed run may have left a part of a cluster.
func removeClusters(h home.Home, names string, log *progress.Log) error {
	existing, err := existingClusters(h)
	if err != nil {
		return err
	}
	remove := existing
	if names != "" {
		remove = strings.Split(names, ",")
	}
	for _, name := range remove {
		if !slices.Contains(existing, name) {
			continue
		}
		if err := removeCluster(h, name); err != nil {
			return fmt.Errorf("removing cluster %s: %w", name, err)
		}
		log.Print("%s: removed", name)
	}
	if remaining, err := existingClusters(h); err != nil || len(remaining) > 0 {
		return err
	}
	if err := world.Down(h.World); err != nil {
		return fmt.Errorf("removing the world network: %w", err)
	}
	if err := node.RemoveCgroups("/" + h.World.Name); err != nil {
		return err
	}
	return h.Unclaim()
}

// existingClusters returns the names of clusters that have a folder, a folder of a node or a network namespace.
func existingClusters(h home.Home) ([]string, error) {
	var names []string
	for _, pattern := range []string{h.Cluster("?"), h.Node("?[0-9]*")} {
		files, err := filepath.Glob(pattern)
		if err != nil {
			return nil, err
		}
		for _, f := range files {
			names = append(names, filepath.Base(f)[:1])
		}
	}
	for _, ns := range netns.List(h.World.NodeNetns("")) {
		if n := strings.TrimPrefix(ns, h.World.NodeNetns("")); isNodeName(n) {
			names = append(names, n[:1])
		}
	}
	slices.Sort(names)
	return slices.Compact(names), nil
}

// isNodeName reports whether the name is a letter and a number.
func isNodeName(name string) bool {
	return len(name) > 1 && name[0] >= 'a' && name[0] <= 'z' && strings.Trim(name[1:], "0123456789") == ""
}

func removeCluster(h home.Home, name string) error {
	nodes, err := existingNodes(h, name)
	if err != nil {
		return err
	}
	var errs error
	for _, n := range nodes {
		errs = errors.Join(errs, node.Stop(h, n))
	}
	errs = errors.Join(errs, cluster.Stop(h, name))
	for _, n := range nodes {
		errs = errors.Join(errs,
			netns.Unlink(h.World.Netns(), n),
			netns.Remove(h.World.NodeNetns(n)),
			node.RemoveCgroups(h.World.Cgroup(n)),
			os.RemoveAll(h.Node(n)))
	}
	// The folder is removed last, so that the next run continues an interrupted removal.
	return errors.Join(errs, os.RemoveAll(h.Cluster(name)))
}

// existingNodes returns the names of a cluster's nodes that have a folder or a network namespace.
func existingNodes(h home.Home, name string) ([]string, error) {
	files, err := filepath.Glob(h.Node(name + "[0-9]*"))
	if err != nil {
		return nil, err
	}
	nodes := netns.List(h.World.NodeNetns(name))
	for i, ns := range nodes {
		nodes[i] = strings.TrimPrefix(ns, h.World.NodeNetns(""))
	}
	for _, f := range files {
		nodes = append(nodes, filepath.Base(f))
	}
	nodes = slices.DeleteFunc(nodes, func(n string) bool { return !isNodeName(n) })
	slices.Sort(nodes)
	return slices.Compact(nodes), nil
}
