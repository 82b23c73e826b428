// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package story

import (
	"regexp"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"liqo.io/liqo/test/clusters"
)

// changing is what counts in what a kernel says.
var changing = regexp.MustCompile(`(packets|bytes) \d+|expires \S+`)

// Kernels tells what each node's kernel has: rules, routes, links, and tables of nftables without their counts.
func Kernels(t *testing.T, of ...*clusters.Cluster) map[string]string {
	t.Helper()
	all := map[string]string{}
	for _, c := range of {
		var nodes corev1.NodeList
		if err := c.Client.List(t.Context(), &nodes); err != nil {
			t.Fatal(err)
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
					t.Fatal(err)
				}
				all[node.Name] += "# " + command + "\n" + changing.ReplaceAllString(out, "")
			}
		}
	}
	return all
}
