// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

// Package netns works with named network namespaces, the ones that `ip netns` shows.
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

// Ensure makes the namespace if it is not there, and makes it again over what a killed run left of it.
func Ensure(name string) error {
	if Exists(name) {
		return nil
	}
	if err := os.Remove(folder + name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("removing the broken network namespace %s: %w", name, err)
	}
	_, err := run("ip", "netns", "add", name)
	return err
}

// Exists says whether the name stands for a namespace, not only for a file.
func Exists(name string) bool {
	var fs unix.Statfs_t
	return unix.Statfs(folder+name, &fs) == nil && fs.Type == unix.NSFS_MAGIC
}

// List returns the namespaces whose name starts with the prefix, whole or broken.
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
	_, err := run("ip", "netns", "del", name)
	return err
}

// Do calls f with the namespace as the calling goroutine's; processes that f starts are born in it.
func Do(name string, f func() error) error {
	result := make(chan error, 1)
	go func() { result <- enter(name, f) }()
	return <-result
}

// enter leaves the namespace again: the goroutine may run on the process's first thread, which does not end with it.
// Only if there is no way back the thread stays locked, and nobody else gets it.
func enter(name string, f func() error) error {
	runtime.LockOSThread()
	home, err := os.Open("/proc/thread-self/ns/net")
	if err != nil {
		runtime.UnlockOSThread()
		return fmt.Errorf("remembering the own network namespace: %w", err)
	}
	defer home.Close()
	ns, err := os.Open(folder + name)
	if err != nil {
		runtime.UnlockOSThread()
		return fmt.Errorf("opening network namespace %s: %w", name, err)
	}
	defer ns.Close()
	defer func() {
		if unix.Setns(int(home.Fd()), unix.CLONE_NEWNET) == nil {
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

// Processes lists the processes that live in the namespace.
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
		var have unix.Stat_t
		if unix.Stat("/proc/"+e.Name()+"/ns/net", &have) == nil && have.Ino == want.Ino && have.Dev == want.Dev {
			pids = append(pids, pid)
		}
	}
	return pids, nil
}

func run(argv ...string) (string, error) {
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // an interrupt must not leave half of the work
	out, err := cmd.CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%s: %w: %s", strings.Join(argv, " "), err, strings.TrimSpace(string(out)))
	}
	return string(out), nil
}
