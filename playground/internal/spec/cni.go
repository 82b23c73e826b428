// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package spec

// CNI is the kind of pod network.
type CNI string

const ( // Masquerade replaces the source address of traffic that leaves the pod network, also to nodes, by the address of the node.
	Masquerade CNI = "masquerade"
	// Plain replaces the source address only of traffic that leaves the cluster: nodes of the cluster see pod addresses.
	Plain CNI = "plain"
	// Overlay is Masquerade with a VXLAN between the nodes: the node network has no traffic with pod addresses.
	Overlay CNI = "overlay"

	// Flannel connects the nodes by a VXLAN.
	Flannel CNI = "flannel"
	// KubeRouter routes between the nodes, which exchange routes by BGP, and enforces network policies.
	KubeRouter CNI = "kube-router"
	// Cilium connects the nodes by a VXLAN and enforces network policies, both with BPF programs.
	Cilium CNI = "cilium"
	// CiliumAlone is Cilium without kube-proxy, which it replaces.
	CiliumAlone CNI = "cilium-without-kube-proxy"
)

// cniVersions are the versions of the CNIs that run in pods.
var cniVersions = map[CNI]string{Flannel: "v0.28.10", KubeRouter: "v2.1.0", Cilium: "v1.17.0"}

// Project returns the CNI whose programs, image and objects this one has.
func (c CNI) Project() CNI {
	if c == CiliumAlone {
		return Cilium
	}
	return c
}

// ProgramGroup returns the cgroup of the programs of a node that reach Services only by BPF programs of their cgroup, as an argument; nothing otherwise.
func (c Cluster) ProgramGroup(node string) []string {
	if c.CNI != CiliumAlone {
		return nil
	}
	return []string{c.World.Cgroup(node)}
}

// RunsInPods reports whether pods, of a DaemonSet with the name of the CNI, configure the pod network instead of the playground.
func (c CNI) RunsInPods() bool { return c.Version() != "" }

// Version returns the version of a CNI that runs in pods.
func (c CNI) Version() string { return cniVersions[c.Project()] }
