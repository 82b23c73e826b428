// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

// Package node renders, starts and stops the nodes of clusters: each node is a set of namespaces with its own
// container runtime, kubelet and kube-proxy.
package node

import (
	"path/filepath"
	"strings"

	"liqo.io/liqo/playground/internal/cluster"
	"liqo.io/liqo/playground/internal/home"
	"liqo.io/liqo/playground/internal/spec"
	"liqo.io/liqo/playground/internal/supervise"
)

// layout has the paths of a node's files.
type layout struct {
	spec.Node
	cluster spec.Cluster
	home    home.Home
	dir     string
	pki     cluster.PKI
}

func newLayout(h home.Home, c spec.Cluster, n spec.Node) layout {
	return layout{
		Node: n, cluster: c, home: h, dir: h.Node(n.Name),
		pki: cluster.PKI(filepath.Join(h.Cluster(c.Name), "pki")),
	}
}

func (l layout) file(elem ...string) string {
	return filepath.Join(append([]string{l.dir}, elem...)...)
}

// gate returns the file that exists once the Node object exists.
func (l layout) gate() string { return l.file("joined") }

func (l layout) addresses() string {
	texts := make([]string, len(l.Addresses))
	for i, a := range l.Addresses {
		texts[i] = a.String()
	}
	return strings.Join(texts, ",")
}

// Units returns the programs of a node.
func Units(h home.Home, c spec.Cluster, n spec.Node) []supervise.Unit {
	l := newLayout(h, c, n)
	units := []supervise.Unit{containerd(l), kubelet(l), kubeProxy(l)}
	if c.CNI == spec.CiliumAlone {
		units = units[:2]
	}
	return units
}
