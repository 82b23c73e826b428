// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"liqo.io/liqo/playground/internal/home"
	"liqo.io/liqo/playground/internal/spec"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// The golden files contain everything that the playground configures and runs: read their diff in a review.
func TestDryRun(t *testing.T) {
	w, err := spec.NewWorld("liqo-pg", "172.29.0.0/16")
	if err != nil {
		t.Fatal(err)
	}
	h := home.Home{Root: "/home", World: w}
	for name, change := range map[string]func(*spec.Cluster){
		"default": func(*spec.Cluster) {},
		"plain with audit": func(c *spec.Cluster) {
			c.Name, c.CNI, c.Audit, c.LoadBalancer, c.Workers = "b", spec.Plain, true, false, 2
			c.APIServerArgs = []string{"--v=4"}
		},
		"overlay in dual stack with equal networks": func(c *spec.Cluster) {
			c.Name, c.CNI, c.Family, c.Overlap, c.Workers = "c", spec.Overlay, spec.Dual, true, 2
		},
		"with simulated nodes":       func(c *spec.Cluster) { c.Name, c.SimulatedNodes = "e", 2 },
		"flannel":                    func(c *spec.Cluster) { c.CNI = spec.Flannel },
		"kube-router with two nodes": func(c *spec.Cluster) { c.Name, c.CNI, c.Workers, c.Addons = "b", spec.KubeRouter, 2, nil },
		"cilium":                     func(c *spec.Cluster) { c.CNI, c.Addons = spec.Cilium, nil },
		"cilium without kube-proxy":  func(c *spec.Cluster) { c.CNI, c.Addons = spec.CiliumAlone, nil },
		"masquerade in ipv6":         func(c *spec.Cluster) { c.Name, c.Family, c.Workers = "d", spec.IPv6, 2 },
	} {
		t.Run(name, func(t *testing.T) {
			c := spec.Default("a", w)
			change(&c)
			if err := c.Validate(); err != nil {
				t.Fatal(err)
			}
			got, err := renderDryRun(h, []spec.Cluster{c})
			if err != nil {
				t.Fatal(err)
			}
			compareGolden(t, name, got)
		})
	}
}

func compareGolden(t *testing.T, name, got string) {
	t.Helper()
	file := filepath.Join("testdata", strings.ReplaceAll(name, " ", "-")+".golden")
	if *update {
		if err := home.Write(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("differs from %s (go test ./internal/cli -update rewrites it):\n%s", file, diff)
	}
}
