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
	{"/opt/cni/bin", "cni-plugins", false},
	{"/run/cilium", "cilium", true},
	{"/var/lib/kubelet", "kubelet", true},
	{"/var/lib/local-path", "volumes", false},
	{"/var/log", "log", false},
}

// Init runs the first process of a node: it creates the mounts of the node and keeps its programs running.
func Init(dir string, cgroup ...string) error {
	units, err := supervise.Load(dir)
	if err != nil {
		return err
	}
	if err := JoinGroup(cgroup...); err != nil {
		return err
	}
	if err := setUpMounts(dir, cgroup); err != nil {
		return err
	}
	if err := unix.Sethostname([]byte(filepath.Base(dir))); err != nil {
		return fmt.Errorf("setting the host name: %w", err)
	}
	return supervise.Run(dir, units)
}

// setUpMounts creates the mounts of the node in its mount namespace.
func setUpMounts(dir string, cgroup []string) error {
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
	for unix.Unmount("/run/netns", unix.MNT_DETACH) == nil { // below the node's, containerd would take the machine's for what it mounts into pods
	}
	if err := unix.Mount("tmpfs", "/run/netns", "tmpfs", 0, "mode=755"); err != nil {
		return fmt.Errorf("mounting the node's /run/netns: %w", err)
	}
	if err := mountBPF(); err != nil {
		return err
	}
	for _, path := range cgroup { // Cilium attaches programs to this cgroup and all below
		if err := bindMount("/run/cilium/cgroupv2", filepath.Join(cgroupV2Root(), path), false); err != nil {
			return err
		}
	}
	return shareMount("/run/netns")
}

// bpfMount is the mount point of the file system that keeps BPF programs and maps.
const bpfMount = "/sys/fs/bpf"

// mountBPF gives the node a BPF file system of its own, if the kernel has it: agents of two nodes use the same names.
func mountBPF() error {
	if _, err := os.Stat(bpfMount); err != nil {
		return nil
	}
	if err := unix.Mount("bpf", bpfMount, "bpf", 0, ""); err != nil {
		return fmt.Errorf("mounting the node's %s: %w", bpfMount, err)
	}
	return shareMount(bpfMount)
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
