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

// places of a machine that are a node's own: where, which folder of the node, whether containers must see later mounts.
var places = []struct {
	at, from string
	shared   bool
}{
	{"/var/lib/containerd", "containerd", false},
	{"/run/containerd", "run", false},
	{"/etc/cni", "cni", false},
	{"/var/lib/cni", "cni-state", false},
	{"/var/lib/kubelet", "kubelet", true},
	{"/var/log", "log", false},
}

// Init is the first process of a node: it gives the node its own view of the machine and keeps its programs running.
func Init(dir string) error {
	units, err := supervise.Load(dir)
	if err != nil {
		return err
	}
	if err := view(dir); err != nil {
		return err
	}
	if err := unix.Sethostname([]byte(filepath.Base(dir))); err != nil {
		return fmt.Errorf("setting the host name: %w", err)
	}
	return supervise.Run(dir, units)
}

// view builds the mounts in the node's own mount namespace; they end with it.
func view(dir string) error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("separating the node's mounts: %w", err)
	}
	if err := unix.Mount("proc", "/proc", "proc", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, ""); err != nil {
		return fmt.Errorf("mounting the node's /proc: %w", err)
	}
	for _, p := range places {
		if err := place(p.at, filepath.Join(dir, p.from), p.shared); err != nil {
			return err
		}
	}
	// Network namespaces of pods are the node's own too.
	if err := os.MkdirAll("/run/netns", 0o755); err != nil {
		return fmt.Errorf("making /run/netns: %w", err)
	}
	if err := unix.Mount("tmpfs", "/run/netns", "tmpfs", 0, "mode=755"); err != nil {
		return fmt.Errorf("mounting the node's /run/netns: %w", err)
	}
	return share("/run/netns")
}

func place(at, from string, shared bool) error {
	for _, dir := range []string{at, from} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return fmt.Errorf("making %s: %w", dir, err)
		}
	}
	if err := unix.Mount(from, at, "", unix.MS_BIND, ""); err != nil {
		return fmt.Errorf("mounting %s: %w", at, err)
	}
	if shared {
		return share(at)
	}
	return nil
}

func share(at string) error {
	if err := unix.Mount("", at, "", unix.MS_SHARED, ""); err != nil {
		return fmt.Errorf("sharing mounts below %s: %w", at, err)
	}
	return nil
}
