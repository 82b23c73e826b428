// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package story

import (
	"context"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"liqo.io/liqo/test/clusters"
)

// changing is what counts in what a kernel says, and that a set may hold ranges: one that held some before goes on so.
var changing = regexp.MustCompile(`(?m)(packets|bytes) \d+|expires \S+|\n\s*flags interval$`)

// Kernels tells what each node's kernel has: rules, routes, links, and tables of nftables without their counts, and in whatever order
// their sets and chains were made.
func Kernels(ctx context.Context, of ...*clusters.Cluster) (map[string]string, error) {
	all := map[string]string{}
	for _, c := range of {
		var nodes corev1.NodeList
		if err := c.Client.List(ctx, &nodes); err != nil {
			return nil, err
		}
		for _, node := range nodes.Items {
			if node.Labels["liqo.io/type"] == "virtual-node" {
				continue
			}
			for _, command := range []string{
				"ip rule", "ip route show table all", "ip -br link", "nft list tables", "nft list table ip liqo", "ip neigh show dev liqo.fabric nud permanent", "bridge fdb show dev liqo.fabric",
			} {
				out, err := Output("exec", node.Name, "sh", "-c", command)
				if err != nil {
					return nil, err
				}
				all[node.Name] += "# " + command + "\n" + inOrder(changing.ReplaceAllString(out, ""))
			}
		}
	}
	return all, nil
}

// inOrder sorts the sets and chains of a table, between which there are empty lines, and other lines, such as those of devices: a device made anew is
// the last one.
func inOrder(text string) string {
	head, rest, _ := strings.Cut(text, "\n")
	if !strings.HasPrefix(head, "table ") {
		lines := strings.Split(text, "\n")
		slices.Sort(lines)
		return strings.Join(lines, "\n") + "\n"
	}
	parts := strings.Split(strings.TrimSuffix(strings.TrimSpace(rest), "}"), "\n\n")
	for i := range parts {
		parts[i] = strings.TrimSpace(parts[i])
	}
	slices.Sort(parts)
	return head + "\n" + strings.Join(parts, "\n\n") + "\n"
}
