// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

// Package netns manages named network namespaces, as listed by `ip netns`.
package netns

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

const folder = "/run/netns/"

// Ensure creates the namespace if it does not exist, and replaces a partial one of a killed run.
func Ensure(name string) error {
	if Exists(name) {
		return nil
	}
	if err := os.Remove(folder + name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("removing the broken network namespace %s: %w", name, err)
	}
	_, err := runCommand("ip", "netns", "add", name)
	return err
}

// Exists reports whether the file of the name is a mounted namespace.
func Exists(name string) bool {
	var fs unix.Statfs_t
	return unix.Statfs(folder+name, &fs) == nil && fs.Type == unix.NSFS_MAGIC
}

// List returns the namespaces, also partial ones, whose name starts with the prefix.
func List(prefix string) []string {
	files, _ := filepath.Glob(folder + prefix + "*")
	for i, f := range files {
		files[i] = filepath.Base(f)
	}
	return files
}

// Delete removes the name; the kernel removes the namespace with its last process.
func Delete(name string) error {
	if !Exists(name) {
		err := os.Remove(folder + name)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return err
	}
	_, err := runCommand("ip", "netns", "del", name)
	return err
}

// Do calls f in the namespace; processes that f starts belong to the namespace.
func Do(name string, f func() error) error {
	result := make(chan error, 1)
	go func() { result <- runInNamespace(name, f) }()
	return <-result
}

// runInNamespace calls f in the namespace and returns to the previous one: the goroutine may run on the main thread, which does not end with
// the goroutine. If the return fails, the thread stays locked, so that no other goroutine runs on it.
func runInNamespace(name string, f func() error) error {
	runtime.LockOSThread()
	previous, err := os.Open("/proc/thread-self/ns/net")
	if err != nil {
		runtime.UnlockOSThread()
		return fmt.Errorf("opening the current network namespace: %w", err)
	}
	defer previous.Close()
	ns, err := os.Open(folder + name)
	if err != nil {
		runtime.UnlockOSThread()
		return fmt.Errorf("opening network namespace %s: %w", name, err)
	}
	defer ns.Close()
	defer func() {
		if unix.Setns(int(previous.Fd()), unix.CLONE_NEWNET) == nil {
			runtime.UnlockOSThread()
		}
	}()
	if err := unix.Setns(int(ns.Fd()), unix.CLONE_NEWNET); err != nil {
		return fmt.Errorf("entering network namespace %s: %w", name, err)
	}
	return f()
}

// Sysctl sets kernel parameters ("net/ipv4/ip_forward=1") in the namespace. A leading dash makes one optional.
func Sysctl(name string, settings []string) error {
	return Do(name, func() error {
		for _, s := range settings {
			key, value, _ := strings.Cut(strings.TrimPrefix(s, "-"), "=")
			err := os.WriteFile("/proc/sys/"+key, []byte(value), 0o644)
			if err != nil && !strings.HasPrefix(s, "-") {
				return fmt.Errorf("setting %s in %s: %w", key, name, err)
			}
		}
		return nil
	})
}

// Processes returns the processes of the namespace.
func Processes(name string) ([]int, error) {
	var want unix.Stat_t
	if err := unix.Stat(folder+name, &want); err != nil {
		return nil, nil // no namespace, no processes
	}
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil, fmt.Errorf("listing processes: %w", err)
	}
	var pids []int
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		var got unix.Stat_t
		if unix.Stat("/proc/"+e.Name()+"/ns/net", &got) == nil && got.Ino == want.Ino && got.Dev == want.Dev {
			pids = append(pids, pid)
		}
	}
	return pids, nil
}

func runCommand(argv ...string) (string, error) {
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // an interrupt does not end the command halfway
	out, err := cmd.CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%s: %w: %s", strings.Join(argv, " "), err, strings.TrimSpace(string(out)))
	}
	return string(out), nil
}
