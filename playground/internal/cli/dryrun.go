// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"fmt"
	"strings"

	"liqo.io/liqo/playground/internal/cluster"
	"liqo.io/liqo/playground/internal/home"
	"liqo.io/liqo/playground/internal/netns"
	"liqo.io/liqo/playground/internal/node"
	"liqo.io/liqo/playground/internal/spec"
	"liqo.io/liqo/playground/internal/supervise"
	"liqo.io/liqo/playground/internal/world"
)

// dryRun prints every network configuration and every program of the clusters.
func dryRun(h home.Home, clusters []spec.Cluster) string {
	var b strings.Builder
	fmt.Fprintf(&b, "# machine\n%s\n", strings.Join(world.Cable(h.World), "\n"))
	network(&b, h.World.Netns(), world.Inside(h.World))
	for _, c := range clusters {
		fmt.Fprintf(&b, "\n# cluster %s\n", c.Name)
		for _, n := range c.Nodes() {
			network(&b, h.World.NodeNetns(n.Name), node.Network(c, n))
		}
		programs(&b, "control plane", cluster.Units(h, c))
		for _, n := range c.Nodes() {
			programs(&b, "node "+n.Name, node.Units(h, c, n))
		}
	}
	return b.String()
}

func network(b *strings.Builder, name string, c netns.Config) {
	fmt.Fprintf(b, "\n# network namespace %s\n", name)
	for _, s := range c.Sysctl {
		fmt.Fprintf(b, "sysctl %s\n", s)
	}
	for _, line := range c.Commands {
		fmt.Fprintln(b, line)
	}
	fmt.Fprintf(b, "nft:\n%s", c.Nftables)
}

func programs(b *strings.Builder, where string, units []supervise.Unit) {
	fmt.Fprintf(b, "\n# programs of %s\n", where)
	for _, u := range units {
		fmt.Fprintln(b, strings.Join(append(u.Env, u.Argv...), " \\\n\t"))
	}
}
