// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"liqo.io/liqo/playground/internal/cluster"
	"liqo.io/liqo/playground/internal/home"
	"liqo.io/liqo/playground/internal/netns"
	"liqo.io/liqo/playground/internal/proc"
	"liqo.io/liqo/playground/internal/spec"
	"liqo.io/liqo/playground/internal/supervise"
)

// Connect creates the network of a node.
func Connect(c spec.Cluster, n spec.Node) error {
	if err := netns.Apply(c.World.NodeNetns(n.Name), Network(c, n)); err != nil {
		return fmt.Errorf("creating the network of node %s: %w", n.Name, err)
	}
	for _, line := range AttachCommands(n) {
		if err := netns.Run(c.World.Netns(), line); err != nil {
			return fmt.Errorf("connecting node %s: %w", n.Name, err)
		}
	}
	return nil
}

// PIDFile returns the path of the pid file of a node's first process.
func PIDFile(h home.Home, node string) string { return filepath.Join(h.Node(node), "node.pid") }

// Start boots the node: its container runtime starts, its kubelet waits for Join.
func Start(h home.Home, c spec.Cluster, n spec.Node) error {
	l := newLayout(h, c, n)
	if err := l.writeFiles(); err != nil {
		return err
	}
	if err := ensureCgroup(c.World.Cgroup(n.Name)); err != nil {
		return err
	}
	if !proc.Alive(PIDFile(h, n.Name)) {
		for _, dir := range []string{"run", "cilium"} { // sockets of a killed runtime and agent
			if err := os.RemoveAll(l.file(dir)); err != nil {
				return fmt.Errorf("cleaning node %s: %w", n.Name, err)
			}
		}
	}
	return proc.Start(proc.Spec{
		PIDFile:    PIDFile(h, n.Name),
		Log:        l.file("log", "node.log"),
		Netns:      c.World.NodeNetns(n.Name),
		Namespaces: unix.CLONE_NEWPID | unix.CLONE_NEWNS | unix.CLONE_NEWUTS | unix.CLONE_NEWIPC,
		Argv:       append([]string{proc.Self, "internal", "node", l.dir}, c.ProgramGroup(n.Name)...),
	})
}

// Join lets the kubelet and kube-proxy start. The Node object exists.
func Join(h home.Home, c spec.Cluster, n spec.Node) error {
	return home.Write(newLayout(h, c, n).gate(), nil, 0o644)
}

// Files returns the configuration files of a node by their name in the node's folder.
func Files(h home.Home, c spec.Cluster, n spec.Node) (map[string]string, error) {
	files := map[string]string{
		"containerd.toml": containerdConfig(newLayout(h, c, n)),
		"kubelet.yaml":    kubeletConfig(newLayout(h, c, n)),
	}
	if c.CNI.RunsInPods() {
		return files, nil
	}
	cni, err := CNIConfig(c, n)
	files["cni/net.d/10-playground.conflist"] = cni
	return files, err
}

func (l layout) writeFiles() error {
	if err := cluster.WriteKubeconfig(l.file("kubelet.kubeconfig"), l.cluster, l.pki, l.Name); err != nil {
		return err
	}
	files, err := Files(l.home, l.cluster, l.Node)
	if err != nil {
		return err
	}
	for name, text := range files {
		if err := home.Write(l.file(name), []byte(text), 0o644); err != nil {
			return err
		}
	}
	return supervise.Save(l.dir, Units(l.home, l.cluster, l.Node))
}

// Stop kills the first process of a node; the kernel ends the other processes of the PID namespace and removes the mounts.
func Stop(h home.Home, node string) error { return proc.Kill(PIDFile(h, node)) }
