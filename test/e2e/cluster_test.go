// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bytes"
	"context"
	"os"
	"testing"
	"time"

	"liqo.io/liqo/test/clusters"
)

// A cluster is one side of a story.
type cluster struct {
	*clusters.Cluster
	empty clusters.Listing // the listing before anything was installed
}

// install has two replicas and a certificate of two minutes, which makes its rotation part of every story.
func (c *cluster) install() error {
	return c.Install("--set", "controllerManager.replicas=2", "--set", "webhook.certificateDuration=2m")
}

func (c *cluster) mustKubectl(t *testing.T, args ...string) string {
	t.Helper()
	out, err := c.Kubectl("", args...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func (c *cluster) apply(t *testing.T, manifest string) {
	t.Helper()
	if _, err := c.Kubectl(manifest, "apply", "-f", "-"); err != nil {
		t.Fatal(err)
	}
}

// eventually waits until check holds. The time is wide: a story asserts that a thing happens, not how fast.
func eventually(t *testing.T, what string, check func(ctx context.Context) error) {
	t.Helper()
	// A test's own context ends before its clean-up, which waits as well.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), 5*time.Minute)
	defer cancel()
	pause := time.NewTicker(250 * time.Millisecond)
	defer pause.Stop()
	var last error // an error of the deadline itself says nothing
	for {
		err := check(ctx)
		if err == nil {
			return
		}
		if ctx.Err() == nil {
			last = err
		}
		select {
		case <-pause.C:
		case <-ctx.Done():
			dump(t)
			t.Fatalf("waiting for %s: %v (load %s)", what, last, loadavg())
		}
	}
}

func loadavg() string {
	data, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return "unknown"
	}
	return string(bytes.TrimSpace(data))
}
