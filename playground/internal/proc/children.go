// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package proc

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// Running reports whether the process of a pid file has a child with the name.
func Running(pidFile, name string) bool {
	pid := PID(pidFile)
	if pid == 0 {
		return false
	}
	threads, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	for _, t := range threads {
		data, _ := os.ReadFile(t)
		for _, child := range strings.Fields(string(data)) {
			line, _ := os.ReadFile("/proc/" + child + "/cmdline")
			argv := strings.Split(string(line), "\x00")
			if filepath.Base(argv[0]) == name || len(argv) > 2 && argv[2] == name {
				return true
			}
		}
	}
	return false
}
