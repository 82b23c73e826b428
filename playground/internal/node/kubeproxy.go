// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"path/filepath"

	"liqo.io/liqo/playground/internal/supervise"
)

// kubeProxy returns the unit of kube-proxy, which does not change the limits of connection tracking: these belong to the machine.
func kubeProxy(l layout) supervise.Unit {
	var pods string
	for i, p := range l.cluster.PodCIDRs() {
		if i > 0 {
			pods += ","
		}
		pods += p.String()
	}
	return supervise.Unit{
		Name: "kube-proxy",
		Argv: []string{
			l.home.KubernetesProgram(l.cluster.Release(), "kube-proxy"),
			"--kubeconfig=" + filepath.Join(l.home.Cluster(l.cluster.Name), "proxy.kubeconfig"),
			"--hostname-override=" + l.Name,
			"--proxy-mode=nftables",
			"--cluster-cidr=" + pods,
			"--conntrack-max-per-core=0",
			"--conntrack-tcp-timeout-established=0",
			"--conntrack-tcp-timeout-close-wait=0",
		},
		Env:  l.cluster.Env(),
		Gate: l.gate(),
	}
}
