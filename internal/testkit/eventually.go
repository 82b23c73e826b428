// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package testkit

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// Eventually calls check until it returns nil, and fails the test with its last error after limit.
func Eventually(t testing.TB, limit time.Duration, check func() error) {
	t.Helper()
	if err := retry(t.Context(), limit, check); err != nil {
		t.Fatalf("not so within %s (load %s): %v", limit, load(), err)
	}
}

// retry calls check with growing pauses until it succeeds.
func retry(ctx context.Context, limit time.Duration, check func() error) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	for wait := 5 * time.Millisecond; ; wait = min(2*wait, 250*time.Millisecond) {
		err := check()
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(wait):
		}
	}
}

// load tells how busy the machine is: slow neighbours are the usual reason of a test that took too long.
func load() string {
	data, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return "unknown"
	}
	return strings.Join(strings.Fields(string(data))[:3], " ")
}

// moduleFile returns the path of a file or folder of the module, looked for upwards from the package under test.
func moduleFile(path string) (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return filepath.Join(dir, filepath.FromSlash(path)), nil
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return "", fmt.Errorf("no go.mod above the package under test")
		}
		dir = parent
	}
}
