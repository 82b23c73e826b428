// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package gitops

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/rand"

	"liqo.io/liqo/test/thirdparty"
)

// TestFlux has a Kustomization for each cluster create a peering, keep it as Git says, and remove it.
func TestFlux(t *testing.T) {
	repo := newRepository(t, func(checkout string) { fillTree(t, checkout) })
	installFlux(t)
	startFlux(t, t.TempDir())
	applyWhenKnown(t, consumer, readExample(t, "flux/peering.yaml", repo))
	waitForKustomizations(t)
	waitForPeering(t)

	t.Run("drift", func(t *testing.T) {
		kubectl(t, provider, "", "patch", "tenant", "-n", "liqo-tenant-cl-consumer", "cl-consumer", "--type=merge", "-p", `{"spec":{"tenantCondition":"Cordoned"}}`)
		kubectl(t, consumer, "", "delete", "rslice", "-n", "liqo-tenant-cl-provider", "cl-provider", "--wait=false")
		reconcile(t)
		eventually(t, "the Tenant to be active again", wantOutput(provider, "Active", "get", "tenant", "-n", "liqo-tenant-cl-consumer", "cl-consumer", "-o", "jsonpath={.spec.tenantCondition}"))
		waitForKustomizations(t)
		waitForPeering(t)
	})
	t.Run("prune", func(t *testing.T) {
		repo.edit(t, "demo/kustomization.yaml", func(s string) string { return strings.Replace(s, "- offloading.yaml\n", "", 1) })
		repo.commit(t, "No offloading")
		reconcile(t)
		eventually(t, "the remote namespace to go", wantOutput(provider, "", "get", "namespace", "demo-cl-consumer", "--ignore-not-found", "-o", "name"))
	})
	t.Run("delete", func(t *testing.T) {
		kubectl(t, consumer, "", "delete", "kustomizations.kustomize.toolkit.fluxcd.io", "--all", "-n", "flux-system", "--timeout=10m")
		waitForNothing(t)
	})
}

func installFlux(t *testing.T) {
	t.Helper()
	for _, p := range []thirdparty.Program{sourceController, kustomizeController} {
		kubectl(t, consumer, "", "apply", "--server-side", "-f", filepath.Join(programs.Source(p), "config", "crd", "bases"))
	}
	kubectl(t, consumer, "", "create", "namespace", "flux-system")
	t.Cleanup(func() {
		_, _ = consumer.Kubectl("", "delete", "kustomizations.kustomize.toolkit.fluxcd.io,gitrepositories.source.toolkit.fluxcd.io", "--all", "-n", "flux-system", "--wait=false")
		_, _ = consumer.Kubectl("", "delete", "namespace", "flux-system", "--wait=false")
	})
	kubeconfig, err := os.ReadFile(provider.Kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := json.Marshal(map[string]any{
		"apiVersion": "v1", "kind": "Secret", "metadata": map[string]string{"name": "cluster-b", "namespace": "flux-system"},
		"data": map[string][]byte{"value": kubeconfig},
	})
	if err != nil {
		t.Fatal(err)
	}
	kubectl(t, consumer, string(secret), "apply", "-f", "-")
}

func startFlux(t *testing.T, dir string) {
	t.Helper()
	storage := freePort(t)
	env := []string{"KUBECONFIG=" + consumer.Kubeconfig, "RUNTIME_NAMESPACE=flux-system", "TMPDIR=" + dir}
	if err := os.Mkdir(filepath.Join(dir, "artifacts"), 0o700); err != nil {
		t.Fatal(err)
	}
	startProcess(t, "source-controller", dir, env, programs.Binary(sourceController),
		"--storage-path", filepath.Join(dir, "artifacts"), "--storage-addr", loopback(storage), "--storage-adv-addr", loopback(storage),
		"--metrics-addr", loopback(freePort(t)), "--health-addr", loopback(freePort(t)), "--events-addr", "")
	startProcess(t, "kustomize-controller", dir, env, programs.Binary(kustomizeController),
		"--metrics-addr", loopback(freePort(t)), "--health-addr", loopback(freePort(t)), "--events-addr", "", "--requeue-dependency", "5s")
}

// reconcile has Flux look at Git and at the clusters now instead of within a minute.
func reconcile(t *testing.T) {
	t.Helper()
	now := "reconcile.fluxcd.io/requestedAt=" + time.Now().Format(time.RFC3339) + rand.String(5)
	kubectl(t, consumer, "", "annotate", "--overwrite", "-n", "flux-system", "gitrepositories.source.toolkit.fluxcd.io", "--all", now)
	kubectl(t, consumer, "", "annotate", "--overwrite", "-n", "flux-system", "kustomizations.kustomize.toolkit.fluxcd.io", "--all", now)
}

func waitForKustomizations(t *testing.T) {
	t.Helper()
	eventually(t, "the Kustomizations", wantOutput(consumer, "True True True", "get", "kustomizations.kustomize.toolkit.fluxcd.io", "-n", "flux-system", "-o", `jsonpath={.items[*].status.conditions[?(@.type=="Ready")].status}`))
}
