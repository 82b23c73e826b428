// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
)

// A node uses about two dozen inotify instances of one user. The default limit of Linux, 128 per user, is enough for five nodes.
const (
	inotifyFile      = "/proc/sys/fs/inotify/max_user_instances"
	inotifyInstances = 8192
)

// RaiseLimits raises limits of the machine, so that more than five nodes run. Limits are not restored, because other programs may depend on
// them.
func RaiseLimits() error {
	if err := raiseLimit(inotifyFile, inotifyInstances); err != nil {
		return fmt.Errorf("allowing more inotify instances, without which kubelets do not start: %w", err)
	}
	return nil
}

// raiseLimit writes a number into a file that contains a smaller one.
func raiseLimit(file string, minimum int) error {
	data, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	current, err := strconv.Atoi(string(bytes.TrimSpace(data)))
	if err != nil {
		return fmt.Errorf("reading %s: %w", file, err)
	}
	if current >= minimum {
		return nil
	}
	return os.WriteFile(file, []byte(strconv.Itoa(minimum)), 0o644)
}
