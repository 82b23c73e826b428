// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

//go:build selftest

package selftest

import (
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// checkNothingRemains fails the test if namespaces, links, files, mounts, routes, cgroups or processes of clusters remain.
func checkNothingRemains(t *testing.T) {
	t.Helper()
	for _, pattern := range []string{
		"/run/netns/" + name + "-*", "/sys/class/net/" + name, "/run/" + name + ".playground",
		filepath.Join(root, "clusters", "*"), filepath.Join(root, "nodes", "*"),
	} {
		if remaining, _ := filepath.Glob(pattern); len(remaining) > 0 {
			t.Errorf("remaining: %v", remaining)
		}
	}
	if strings.Contains(readFile(t, "/proc/self/mounts"), root) {
		t.Error("remaining: mounts")
	}
	routes := readFile(t, "/proc/net/route")
	if strings.Contains(routes, name) {
		t.Errorf("remaining: routes\n%s", routes)
	}
	_ = filepath.WalkDir("/sys/fs/cgroup", func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() && d.Name() == name {
			t.Errorf("remaining: cgroup %s", path)
		}
		return nil
	})
	lines, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, path := range lines {
		line, _ := os.ReadFile(path)
		if argv := strings.ReplaceAll(string(line), "\x00", " "); strings.Contains(argv, root+"/") {
			t.Errorf("remaining: process %s: %s", filepath.Base(filepath.Dir(path)), argv)
		}
	}
}

func isReachable(address string) bool {
	conn, err := net.DialTimeout("tcp", address, time.Second)
	if err != nil {
		return false
	}
	conn.Close()
	return true
}
