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

// cgroupMount is the mount point of the cgroup file systems of version 1 or 2.
const cgroupMount = "/sys/fs/cgroup"

// ensureCgroup creates the cgroup in every hierarchy of the machine.
func ensureCgroup(path string) error {
	if isCgroupV2() {
		return ensureCgroupV2(path)
	}
	for _, h := range cgroupV1Hierarchies() {
		dir := filepath.Join(h, path)
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return fmt.Errorf("creating cgroup %s: %w", dir, err)
		}
		if err := inheritCPUSet(h, path); err != nil {
			return err
		}
		if err := setCPUWeights(h, path); err != nil {
			return err
		}
	}
	return nil
}

// cpuWeights give the cgroup of a node the CPU share of eight threads of the machine, for a machine whose CPU is short. With the default
// weight, all pods of all clusters together would get the share of one thread of a control plane or of a compiler.
var cpuWeights = map[string]string{"cpu.shares": "8192", "cpu.weight": "800"}

// setCPUWeights sets the weight of each cgroup of the path, in hierarchies of the CPU controller.
func setCPUWeights(hierarchy, path string) error {
	for file, weight := range cpuWeights {
		dir := hierarchy
		for part := range strings.SplitSeq(strings.Trim(path, "/"), "/") {
			dir = filepath.Join(dir, part)
			if _, err := os.Stat(filepath.Join(dir, file)); errors.Is(err, fs.ErrNotExist) {
				break
			}
			if err := os.WriteFile(filepath.Join(dir, file), []byte(weight), 0o644); err != nil {
				return fmt.Errorf("setting the CPU weight of cgroup %s: %w", dir, err)
			}
		}
	}
	return nil
}

// isCgroupV2 reports whether the machine has the unified hierarchy.
func isCgroupV2() bool {
	_, err := os.Stat(filepath.Join(cgroupMount, "cgroup.controllers"))
	return err == nil
}

// cgroupV2Root returns the mount point of version 2, also beside version 1.
func cgroupV2Root() string {
	if isCgroupV2() {
		return cgroupMount
	}
	return filepath.Join(cgroupMount, "unified")
}

// JoinGroup moves this process into a cgroup of version 2 below that of a node, which has other processes in cgroups below alone.
func JoinGroup(cgroup ...string) error {
	for _, path := range cgroup {
		dir := filepath.Join(cgroupV2Root(), path, "programs")
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return fmt.Errorf("creating cgroup %s: %w", dir, err)
		}
		if err := os.WriteFile(filepath.Join(dir, "cgroup.procs"), []byte("0"), 0o644); err != nil {
			return fmt.Errorf("joining cgroup %s: %w", dir, err)
		}
	}
	return nil
}

// cgroupV1Hierarchies returns the hierarchies of version 1, without links to joint controllers (cpu -> cpu,cpuacct).
func cgroupV1Hierarchies() []string {
	entries, _ := os.ReadDir(cgroupMount)
	var dirs []string
	for _, e := range entries {
		dir := filepath.Join(cgroupMount, e.Name())
		if _, err := os.Stat(filepath.Join(dir, "cgroup.procs")); err == nil && e.IsDir() {
			dirs = append(dirs, dir)
		}
	}
	return dirs
}

// inheritCPUSet sets the CPUs of each cgroup of the path: a new cpuset is empty, and refuses processes.
func inheritCPUSet(hierarchy, path string) error {
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
				return fmt.Errorf("setting the CPUs of cgroup %s: %w", dir, err)
			}
		}
	}
	return nil
}

// ensureCgroupV2 delegates all controllers of version 2 to the node's cgroup.
func ensureCgroupV2(path string) error {
	data, err := os.ReadFile(filepath.Join(cgroupMount, "cgroup.controllers"))
	if err != nil {
		return fmt.Errorf("reading cgroup controllers: %w", err)
	}
	enable := "+" + strings.Join(strings.Fields(string(data)), " +")
	dir := cgroupMount
	for part := range strings.SplitSeq(strings.Trim(path, "/"), "/") {
		if err := os.WriteFile(filepath.Join(dir, "cgroup.subtree_control"), []byte(enable), 0o644); err != nil {
			return fmt.Errorf("enabling controllers in cgroup %s: %w", dir, err)
		}
		dir = filepath.Join(dir, part)
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return fmt.Errorf("creating cgroup %s: %w", dir, err)
		}
	}
	return setCPUWeights(cgroupMount, path)
}

// RemoveCgroups removes a cgroup and its descendants in every hierarchy. It retries, because the kernel keeps a cgroup for a moment after
// its last process has ended.
func RemoveCgroups(path string) error {
	roots := cgroupV1Hierarchies()
	if isCgroupV2() {
		roots = []string{cgroupMount}
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
