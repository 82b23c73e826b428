// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"liqo.io/liqo/playground/internal/supervise"
)

// nodeMounts are the folders of the machine that each node replaces with its own: mount point, folder of the node, and whether mounts
// propagate to containers.
var nodeMounts = []struct {
	target, source string
	shared         bool
}{
	{"/var/lib/containerd", "containerd", false},
	{"/run/containerd", "run", false},
	{"/etc/cni", "cni", false},
	{"/var/lib/cni", "cni-state", false},
	{"/var/lib/kubelet", "kubelet", true},
	{"/var/log", "log", false},
}

// Init runs the first process of a node: it creates the mounts of the node and keeps its programs running.
func Init(dir string) error {
	units, err := supervise.Load(dir)
	if err != nil {
		return err
	}
	if err := setUpMounts(dir); err != nil {
		return err
	}
	if err := unix.Sethostname([]byte(filepath.Base(dir))); err != nil {
		return fmt.Errorf("setting the host name: %w", err)
	}
	return supervise.Run(dir, units)
}

// setUpMounts creates the mounts of the node in its mount namespace.
func setUpMounts(dir string) error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("separating the node's mounts: %w", err)
	}
	if err := unix.Mount("proc", "/proc", "proc", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, ""); err != nil {
		return fmt.Errorf("mounting the node's /proc: %w", err)
	}
	for _, p := range nodeMounts {
		if err := bindMount(p.target, filepath.Join(dir, p.source), p.shared); err != nil {
			return err
		}
	}
	// The node has its own folder for network namespaces of pods.
	if err := os.MkdirAll("/run/netns", 0o755); err != nil {
		return fmt.Errorf("creating /run/netns: %w", err)
	}
	if err := unix.Mount("tmpfs", "/run/netns", "tmpfs", 0, "mode=755"); err != nil {
		return fmt.Errorf("mounting the node's /run/netns: %w", err)
	}
	return shareMount("/run/netns")
}

func bindMount(target, source string, shared bool) error {
	for _, dir := range []string{target, source} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return fmt.Errorf("creating %s: %w", dir, err)
		}
	}
	if err := unix.Mount(source, target, "", unix.MS_BIND, ""); err != nil {
		return fmt.Errorf("mounting %s: %w", target, err)
	}
	if shared {
		return shareMount(target)
	}
	return nil
}

func shareMount(target string) error {
	if err := unix.Mount("", target, "", unix.MS_SHARED, ""); err != nil {
		return fmt.Errorf("sharing mounts below %s: %w", target, err)
	}
	return nil
}
