// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
)

// A node uses about two dozen inotify instances, all of one user; Linux grants 128 to each, which is enough for five nodes.
const (
	inotifyFile      = "/proc/sys/fs/inotify/max_user_instances"
	inotifyInstances = 8192
)

// RaiseLimits lets this machine run more than a few nodes. It never lowers a limit, and nothing sets it back: others may
// have come to rely on it.
func RaiseLimits() error {
	if err := raise(inotifyFile, inotifyInstances); err != nil {
		return fmt.Errorf("allowing more inotify instances, without which kubelets do not start: %w", err)
	}
	return nil
}

// raise writes a number into a file that holds a smaller one.
func raise(file string, least int) error {
	data, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	have, err := strconv.Atoi(string(bytes.TrimSpace(data)))
	if err != nil {
		return fmt.Errorf("reading %s: %w", file, err)
	}
	if have >= least {
		return nil
	}
	return os.WriteFile(file, []byte(strconv.Itoa(least)), 0o644)
}
