// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

// Package gitops has Argo CD and Flux create, keep and remove a peering from the manifests of examples/gitops. Both run as processes of
// this machine that reach the clusters by their kubeconfigs. LIQO_E2E_KUBECONFIGS names the kubeconfigs of consumer and provider;
// LIQO_GITOPS_HOME is where the programs are kept between runs.
package gitops

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"liqo.io/liqo/test/clusters"
)

var (
	consumer, provider *clusters.Cluster
	programs           builder
)

func TestMain(m *testing.M) {
	if err := setUp(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, "gitops:", err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}

func setUp(ctx context.Context) error {
	given, err := clusters.Given("cl-consumer", "cl-provider")
	if err != nil {
		return err
	}
	consumer, provider = given[0], given[1]
	cache, err := os.UserCacheDir()
	if err != nil {
		return err
	}
	programs = builder{dir: cmp.Or(os.Getenv("LIQO_GITOPS_HOME"), filepath.Join(cache, "liqo-gitops"))}
	for _, p := range []program{sourceController, kustomizeController, kustomize, argocd} {
		if err := programs.build(ctx, p); err != nil {
			return err
		}
	}
	for _, cluster := range given {
		if err := cluster.Install("--set", "controllerManager.replicas=1"); err != nil {
			return err
		}
	}
	return nil
}

func kubectl(t *testing.T, on *clusters.Cluster, stdin string, args ...string) string {
	t.Helper()
	out, err := on.Kubectl(stdin, args...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// applyWhenKnown applies manifests of kinds whose definitions were just created: the API server serves them a moment later.
func applyWhenKnown(t *testing.T, on *clusters.Cluster, manifests string) {
	t.Helper()
	eventually(t, "the API server to know the kinds", func() error {
		_, err := on.Kubectl(manifests, "apply", "-f", "-")
		return err
	})
}
