// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

// Package gitops has Argo CD and Flux create, keep and remove a peering from the manifests of examples/gitops. Both run as processes of
// this machine that reach the clusters by their kubeconfigs. LIQO_E2E_KUBECONFIGS names the kubeconfigs of consumer and provider;
// LIQO_GITOPS_HOME is where the programs are kept between runs.
package gitops

import (
	"context"
	"fmt"
	"os"
	"testing"

	"liqo.io/liqo/test/clusters"
	"liqo.io/liqo/test/thirdparty"
)

var (
	consumer, provider *clusters.Cluster
	programs           thirdparty.Builder
)

// Argo CD 3.2 is the last release whose parts are all published modules. So are the Flux controllers in these versions.
var (
	argocd              = thirdparty.Program{Name: "argocd", Module: "github.com/argoproj/argo-cd/v3", Version: "v3.2.11", Package: "./cmd"}
	kustomize           = thirdparty.Program{Name: "kustomize", Module: "sigs.k8s.io/kustomize/kustomize/v5", Version: "v5.8.1", Package: "."}
	sourceController    = thirdparty.Program{Name: "source-controller", Module: "github.com/fluxcd/source-controller", Version: "v1.8.0", Package: ".", Nested: []string{"github.com/fluxcd/source-controller/api"}}
	kustomizeController = thirdparty.Program{Name: "kustomize-controller", Module: "github.com/fluxcd/kustomize-controller", Version: "v1.9.6", Package: ".", Nested: []string{"github.com/fluxcd/kustomize-controller/api"}}
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
	if programs, err = thirdparty.NewBuilder("LIQO_GITOPS_HOME", "liqo-gitops"); err != nil {
		return err
	}
	for _, p := range []thirdparty.Program{sourceController, kustomizeController, kustomize, argocd} {
		if err := programs.Build(ctx, p); err != nil {
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
