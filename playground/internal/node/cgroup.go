// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// cgroups is the mount point of the cgroup file systems, version 1 or 2.
const cgroups = "/sys/fs/cgroup"

// ensureCgroup makes the cgroup in every hierarchy that the machine has.
func ensureCgroup(path string) error {
	if unified() {
		return ensureUnified(path)
	}
	for _, h := range hierarchies() {
		dir := filepath.Join(h, path)
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return fmt.Errorf("making cgroup %s: %w", dir, err)
		}
		if err := inheritCPUs(h, path); err != nil {
			return err
		}
		if err := weigh(h, path); err != nil {
			return err
		}
	}
	return nil
}

// weights of a node where the CPU is short: as much as eight threads of the machine, among which are the control planes and
// whoever builds. As one cgroup among them, all pods of all clusters would get what one thread gets.
var weights = map[string]string{"cpu.shares": "8192", "cpu.weight": "800"}

// weigh sets the weight of each cgroup on the way, where the hierarchy is about the CPU.
func weigh(hierarchy, path string) error {
	for file, weight := range weights {
		dir := hierarchy
		for part := range strings.SplitSeq(strings.Trim(path, "/"), "/") {
			dir = filepath.Join(dir, part)
			if _, err := os.Stat(filepath.Join(dir, file)); errors.Is(err, fs.ErrNotExist) {
				break
			}
			if err := os.WriteFile(filepath.Join(dir, file), []byte(weight), 0o644); err != nil {
				return fmt.Errorf("weighing cgroup %s: %w", dir, err)
			}
		}
	}
	return nil
}

func unified() bool {
	_, err := os.Stat(filepath.Join(cgroups, "cgroup.controllers"))
	return err == nil
}

// hierarchies of version 1; the links that join controllers (cpu -> cpu,cpuacct) are no hierarchies of their own.
func hierarchies() []string {
	entries, _ := os.ReadDir(cgroups)
	var dirs []string
	for _, e := range entries {
		dir := filepath.Join(cgroups, e.Name())
		if _, err := os.Stat(filepath.Join(dir, "cgroup.procs")); err == nil && e.IsDir() {
			dirs = append(dirs, dir)
		}
	}
	return dirs
}

// inheritCPUs: a new cpuset is empty and takes no process until it is told which CPUs it has.
func inheritCPUs(hierarchy, path string) error {
	for _, file := range []string{"cpuset.cpus", "cpuset.mems"} {
		all, err := os.ReadFile(filepath.Join(hierarchy, file))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return fmt.Errorf("reading the machine's CPUs: %w", err)
		}
		dir := hierarchy
		for part := range strings.SplitSeq(strings.Trim(path, "/"), "/") {
			dir = filepath.Join(dir, part)
			if err := os.WriteFile(filepath.Join(dir, file), all, 0o644); err != nil {
				return fmt.Errorf("giving CPUs to cgroup %s: %w", dir, err)
			}
		}
	}
	return nil
}

// ensureUnified passes every controller of version 2 down to the node's cgroup.
func ensureUnified(path string) error {
	data, err := os.ReadFile(filepath.Join(cgroups, "cgroup.controllers"))
	if err != nil {
		return fmt.Errorf("reading cgroup controllers: %w", err)
	}
	enable := "+" + strings.Join(strings.Fields(string(data)), " +")
	dir := cgroups
	for part := range strings.SplitSeq(strings.Trim(path, "/"), "/") {
		if err := os.WriteFile(filepath.Join(dir, "cgroup.subtree_control"), []byte(enable), 0o644); err != nil {
			return fmt.Errorf("enabling controllers in cgroup %s: %w", dir, err)
		}
		dir = filepath.Join(dir, part)
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return fmt.Errorf("making cgroup %s: %w", dir, err)
		}
	}
	return weigh(cgroups, path)
}

// RemoveCgroups removes a cgroup and all below it, in every hierarchy. The kernel needs a moment to let go of what
// has just ended.
func RemoveCgroups(path string) error {
	roots := hierarchies()
	if unified() {
		roots = []string{cgroups}
	}
	var err error
	for range 100 {
		err = nil
		for _, root := range roots {
			err = errors.Join(err, removeTree(filepath.Join(root, path)))
		}
		if err == nil {
			return nil
		}
		time.Sleep(50 * time.Millisecond)
	}
	return fmt.Errorf("removing cgroups of %s: %w", path, err)
}

func removeTree(dir string) error {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	for _, e := range entries {
		if e.IsDir() {
			err = errors.Join(err, removeTree(filepath.Join(dir, e.Name())))
		}
	}
	if err != nil {
		return err
	}
	return os.Remove(dir)
}
