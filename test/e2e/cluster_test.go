// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bytes"
	"context"
	"os"
	"regexp"
	"testing"
	"time"

	"liqo.io/liqo/test/clusters"
)

// A cluster is one side of a story.
type cluster struct {
	*clusters.Cluster
	empty []string // the listing before anything was installed
}

func newCluster(id, kubeconfig string) (*cluster, error) {
	c, err := clusters.New(id, kubeconfig)
	return &cluster{Cluster: c}, err
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
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), 2*time.Minute)
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

// interesting leaves out what every start of a process says.
func interesting(log string) string {
	return regexp.MustCompile(`(?m)^.*"(Starting|Registering|Serving|starting) .*\n`).ReplaceAllString(log, "")
}

// dump shows what a reader of a failure asks first.
func dump(t *testing.T) {
	t.Helper()
	for _, c := range []*cluster{consumer, provider} {
		for _, args := range [][]string{
			{"get", "nodes,rslice,identities,virtualnodes,namespacemaps,tenants,shadowpods,foreignclusters,pods", "-A", "-o", "wide", "--ignore-not-found"},
			{"get", "events", "-A", "--field-selector", "type=Warning"},
			{"logs", "-n", "liqo", "deploy/liqo-controller-manager", "--tail", "60"},
			{"logs", "-n", "liqo", "deploy/liqo-crd-replicator", "--tail", "30"},
		} {
			out, err := c.Kubectl("", args...)
			t.Logf("%s $ kubectl %v\n%s%v", c.ID, args, interesting(out), err)
		}
	}
}
