// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

// Package several tells one story of three clusters of the playground: a borrows from b by two virtual nodes and from c by
// one, and c, which lends to a, borrows from b itself. LIQO_E2E_KUBECONFIGS names the kubeconfigs of a, b and c, fresh ones;
// LIQO_PLAYGROUND is the program that runs them, and LIQO_PLAYGROUND_HOME where it does.
package several

import (
	"fmt"
	"os"
	"testing"

	"liqo.io/liqo/test/clusters"
)

var a, b, c *clusters.Cluster

func TestMain(m *testing.M) {
	if err := setUp(); err != nil {
		fmt.Fprintln(os.Stderr, "several:", err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}

func setUp() error {
	given, err := clusters.Given("cl-a", "cl-b", "cl-c")
	if err != nil {
		return err
	}
	a, b, c = given[0], given[1], given[2]
	for _, one := range given {
		if err := one.Install("--set", "controllerManager.replicas=1"); err != nil {
			return err
		}
	}
	return nil
}

func all() []*clusters.Cluster { return []*clusters.Cluster{a, b, c} }

func byID(id string) *clusters.Cluster {
	for _, cluster := range all() {
		if cluster.ID == id {
			return cluster
		}
	}
	panic("there is no cluster " + id)
}

func kubectl(t *testing.T, on *clusters.Cluster, stdin string, args ...string) {
	t.Helper()
	if _, err := on.Kubectl(stdin, args...); err != nil {
		t.Fatal(err)
	}
}

// show prints what a reader of a failure asks first.
func show(t *testing.T) {
	t.Helper()
	ours := []string{"logs", "--prefix", "--all-containers", "--ignore-errors", "--tail", "60", "-n"}
	for _, cluster := range all() {
		for _, args := range [][]string{
			{"get", "nodes,rslice,virtualnodes,namespaceoffloadings,namespacemaps,tenants,foreignclusters,shadowpods,pods", "-A", "-o", "wide"},
			{"get", "events", "-A", "--field-selector", "type=Warning"},
			append(ours, "liqo", "-l", "app.kubernetes.io/name=controller-manager"),
			append(ours, "liqo", "-l", "app.kubernetes.io/name=crd-replicator"),
			append(ours, "a-b-to-provider", "-l", "liqo.io/virtual-node"),
			append(ours, "a-c-to-provider", "-l", "liqo.io/virtual-node"),
			append(ours, "c-b-to-provider", "-l", "liqo.io/virtual-node"),
		} {
			out, err := cluster.Kubectl("", args...)
			t.Logf("%s $ kubectl %v\n%s%v", cluster.ID, args, out, err)
		}
	}
}
