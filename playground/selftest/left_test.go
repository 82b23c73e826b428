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

// nothingLeft looks for every kind of thing that clusters are made of.
func nothingLeft(t *testing.T) {
	t.Helper()
	for _, pattern := range []string{
		"/run/netns/" + name + "-*", "/sys/class/net/" + name, "/run/" + name + ".playground",
		filepath.Join(root, "clusters", "*"), filepath.Join(root, "nodes", "*"),
	} {
		if left, _ := filepath.Glob(pattern); len(left) > 0 {
			t.Errorf("left: %v", left)
		}
	}
	if strings.Contains(read(t, "/proc/self/mounts"), root) {
		t.Error("left: mounts")
	}
	routes := read(t, "/proc/net/route")
	if strings.Contains(routes, name) {
		t.Errorf("left: routes\n%s", routes)
	}
	_ = filepath.WalkDir("/sys/fs/cgroup", func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() && d.Name() == name {
			t.Errorf("left: cgroup %s", path)
		}
		return nil
	})
	lines, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, path := range lines {
		line, _ := os.ReadFile(path)
		if argv := strings.ReplaceAll(string(line), "\x00", " "); strings.Contains(argv, root+"/") {
			t.Errorf("left: process %s: %s", filepath.Base(filepath.Dir(path)), argv)
		}
	}
}

func dial(address string) bool {
	conn, err := net.DialTimeout("tcp", address, time.Second)
	if err != nil {
		return false
	}
	conn.Close()
	return true
}
