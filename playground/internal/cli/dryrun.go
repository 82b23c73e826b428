// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"liqo.io/liqo/playground/internal/cluster"
	"liqo.io/liqo/playground/internal/home"
	"liqo.io/liqo/playground/internal/netns"
	"liqo.io/liqo/playground/internal/node"
	"liqo.io/liqo/playground/internal/spec"
	"liqo.io/liqo/playground/internal/supervise"
	"liqo.io/liqo/playground/internal/world"
)

// renderDryRun returns every network configuration, program, file and API object of the clusters.
func renderDryRun(h home.Home, clusters []spec.Cluster) (string, error) {
	var b strings.Builder
	fmt.Fprintf(&b, "# machine\n%s\n", strings.Join(world.HostCommands(h.World), "\n"))
	printNetwork(&b, h.World.Netns(), world.NetworkConfig(h.World))
	for _, c := range clusters {
		fmt.Fprintf(&b, "\n# cluster %s\n", c.Name)
		printPrograms(&b, "the control plane", cluster.Units(h, c))
		printFiles(&b, h.Cluster(c.Name), cluster.Files(h, c))
		for _, n := range c.Nodes() {
			printNetwork(&b, h.World.NodeNetns(n.Name), node.Network(c, n))
			printPrograms(&b, "node "+n.Name, node.Units(h, c, n))
			texts, err := node.Files(h, c, n)
			if err != nil {
				return "", err
			}
			printFiles(&b, h.Node(n.Name), texts)
		}
		objects, err := cluster.Addons(c, []byte("the cluster's CA"))
		if err != nil {
			return "", err
		}
		fmt.Fprintf(&b, "\n# objects in cluster %s\n%s", c.Name, objects)
	}
	return b.String(), nil
}

func printFiles(b *strings.Builder, folder string, texts map[string]string) {
	for _, name := range slices.Sorted(maps.Keys(texts)) {
		fmt.Fprintf(b, "\n# file %s/%s\n%s", folder, name, texts[name])
	}
}

func printNetwork(b *strings.Builder, name string, c netns.Config) {
	fmt.Fprintf(b, "\n# network namespace %s\n", name)
	for _, s := range c.Sysctl {
		fmt.Fprintf(b, "sysctl %s\n", s)
	}
	for _, line := range c.Commands {
		fmt.Fprintln(b, line)
	}
	fmt.Fprintf(b, "nft:\n%s", c.Nftables)
}

func printPrograms(b *strings.Builder, where string, units []supervise.Unit) {
	fmt.Fprintf(b, "\n# programs of %s\n", where)
	for _, u := range units {
		fmt.Fprintln(b, strings.Join(append(u.Env, u.Argv...), " \\\n\t"))
	}
}
