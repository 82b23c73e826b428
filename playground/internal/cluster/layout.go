// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

// Package cluster renders and starts the control plane of a cluster, and creates the objects that kubeadm creates.
package cluster

import (
	"net/netip"
	"path/filepath"
	"strings"

	"liqo.io/liqo/playground/internal/home"
	"liqo.io/liqo/playground/internal/spec"
	"liqo.io/liqo/playground/internal/supervise"
)

// layout has the paths of a cluster's files.
type layout struct {
	spec.Cluster
	home home.Home
	dir  string
	pki  PKI
}

func newLayout(h home.Home, c spec.Cluster) layout {
	dir := h.Cluster(c.Name)
	return layout{Cluster: c, home: h, dir: dir, pki: PKI(filepath.Join(dir, "pki"))}
}

func (l layout) file(elem ...string) string {
	return filepath.Join(append([]string{l.dir}, elem...)...)
}

// kubeconfig returns the path of a component's kubeconfig.
func (l layout) kubeconfig(user string) string { return l.file(user + ".kubeconfig") }

// unit returns a program of the control plane, with a gate of the same name.
func (l layout) unit(name string, env []string, args ...string) supervise.Unit {
	return supervise.Unit{Name: name, Argv: append([]string{l.home.KubernetesProgram(l.Release(), name)}, args...), Env: env, Gate: Gate(l.home, l.Name, name)}
}

// Gate returns the file that lets a program of a control plane run.
func Gate(h home.Home, cluster, program string) string {
	return filepath.Join(h.Cluster(cluster), "gates", program)
}

// Units returns the programs of a cluster's control plane.
func Units(h home.Home, c spec.Cluster) []supervise.Unit {
	l := newLayout(h, c)
	units := []supervise.Unit{etcd(l), apiServer(l), controllerManager(l), scheduler(l)}
	if c.LoadBalancer {
		units = append(units, loadBalancer(l))
	}
	if c.SimulatedNodes > 0 {
		units = append(units, kwok(l))
	}
	return units
}

// Files returns the configuration files of the control plane by their name in the cluster's folder.
func Files(h home.Home, c spec.Cluster) map[string]string {
	files := map[string]string{"scheduler.yaml": schedulerConfig(newLayout(h, c))}
	if c.Audit {
		files["audit.yaml"] = auditPolicy
	}
	if c.SimulatedNodes > 0 {
		files["kwok.yaml"] = kwokConfig(newLayout(h, c))
	}
	return files
}

// clientFlags returns the flags of a client of the API server.
func (l layout) clientFlags(user string) []string {
	k := l.kubeconfig(user)
	return []string{
		"--kubeconfig=" + k,
		"--authentication-kubeconfig=" + k,
		"--authorization-kubeconfig=" + k,
		"--cert-dir=" + l.file("certs", user),
		"--leader-elect=false",
		"--profiling=false",
	}
}

func joinStrings[T netip.Prefix | netip.Addr](items []T) string {
	texts := make([]string, len(items))
	for i, item := range items {
		switch v := any(item).(type) {
		case netip.Prefix:
			texts[i] = v.String()
		case netip.Addr:
			texts[i] = v.String()
		}
	}
	return strings.Join(texts, ",")
}
