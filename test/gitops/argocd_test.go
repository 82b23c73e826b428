// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package gitops

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"liqo.io/liqo/test/clusters"
)

var applications = []string{"liqo-consumer", "liqo-provider", "liqo-demo"}

// TestArgoCD has an Application for each cluster create a peering, keep it as Git says, and remove it.
func TestArgoCD(t *testing.T) {
	dir := t.TempDir()
	repo := newRepository(t, func(checkout string) { fillTree(t, checkout) })
	installArgoCD(t)
	startArgoCD(t, dir)
	applyWhenKnown(t, consumer, readExample(t, "argocd/applications.yaml", repo))
	t.Cleanup(func() {
		_, _ = consumer.Kubectl("", append([]string{"delete", "applications", "-n", "argocd", "--ignore-not-found", "--wait=false"}, applications...)...)
	})
	waitForApplications(t)
	waitForPeering(t)

	t.Run("no difference", func(t *testing.T) {
		before := syncHistory(t)
		refresh(t, "hard")
		waitForApplications(t)
		if after := syncHistory(t); after != before {
			t.Errorf("Argo CD synced again although nothing changed in Git: %s, then %s", before, after)
		}
	})
	t.Run("self-heal", func(t *testing.T) {
		kubectl(t, provider, "", "patch", "tenant", "-n", "liqo-tenant-cl-consumer", "cl-consumer", "--type=merge", "-p", `{"spec":{"tenantCondition":"Cordoned"}}`)
		kubectl(t, consumer, "", "delete", "configuration", "-n", "liqo-tenant-cl-provider", "cl-provider", "--wait=false")
		kubectl(t, consumer, "", "delete", "rslice", "-n", "liqo-tenant-cl-provider", "cl-provider", "--wait=false")
		eventually(t, "the Tenant to be active again", wantOutput(provider, "Active", "get", "tenant", "-n", "liqo-tenant-cl-consumer", "cl-consumer", "-o", "jsonpath={.spec.tenantCondition}"))
		for _, kind := range []string{"configuration", "rslice"} {
			eventually(t, "the "+kind+" to come back", wantOutput(consumer, "", "get", kind, "-n", "liqo-tenant-cl-provider", "cl-provider", "-o", "jsonpath={.metadata.deletionTimestamp}"))
		}
		waitForApplications(t)
		waitForPeering(t)
	})
	t.Run("change in Git", func(t *testing.T) {
		repo.edit(t, "consumer/resources.yaml", func(s string) string { return strings.Replace(s, `cpu: "4"`, `cpu: "5"`, 1) })
		repo.commit(t, "More CPU")
		refresh(t, "normal")
		eventually(t, "the virtual node to grow", wantOutput(consumer, "5", "get", "node", "cl-provider", "-o", "jsonpath={.status.capacity.cpu}"))
		waitForApplications(t)
	})
	t.Run("prune", func(t *testing.T) {
		repo.edit(t, "demo/kustomization.yaml", func(s string) string { return strings.Replace(s, "- offloading.yaml\n", "", 1) })
		repo.commit(t, "No offloading")
		refresh(t, "normal")
		eventually(t, "the remote namespace to go", wantOutput(provider, "", "get", "namespace", "demo-cl-consumer", "--ignore-not-found", "-o", "name"))
		repo.edit(t, "demo/kustomization.yaml", func(s string) string { return strings.Replace(s, "- web.yaml\n", "- web.yaml\n- offloading.yaml\n", 1) })
		repo.commit(t, "Offloading")
		refresh(t, "normal")
		waitForApplications(t)
		waitForPeering(t)
	})
	t.Run("delete and apply again", func(t *testing.T) {
		for range 2 {
			kubectl(t, consumer, "", append([]string{"delete", "applications", "-n", "argocd", "--timeout=10m"}, applications...)...)
			waitForNothing(t)
			kubectl(t, consumer, readExample(t, "argocd/applications.yaml", repo), "apply", "-f", "-")
			waitForApplications(t)
			waitForPeering(t)
		}
		kubectl(t, consumer, "", append([]string{"delete", "applications", "-n", "argocd", "--timeout=10m"}, applications...)...)
		waitForNothing(t)
	})
}

// TestArgoCDHealth compares the verdicts of the script of the example, as Argo CD itself runs it.
func TestArgoCDHealth(t *testing.T) {
	dir := t.TempDir()
	config := filepath.Join(dir, "argocd-cm.yaml")
	if err := os.WriteFile(config, argocdConfig(t), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct{ group, kind, spec, status, want string }{
		"slice without an answer":      {"authentication", "ResourceSlice", `{}`, `{}`, "Progressing"},
		"slice with half an answer":    {"authentication", "ResourceSlice", `{}`, `{"conditions":[{"type":"Authentication","status":"Accepted"}]}`, "Progressing"},
		"accepted slice":               {"authentication", "ResourceSlice", `{}`, `{"conditions":[{"type":"Authentication","status":"Accepted"},{"type":"Resources","status":"Accepted"}]}`, "Healthy"},
		"denied slice":                 {"authentication", "ResourceSlice", `{}`, `{"conditions":[{"type":"Authentication","status":"Accepted"},{"type":"Resources","status":"Denied","message":"no"}]}`, "Degraded"},
		"tenant that is ready":         {"authentication", "Tenant", `{"tenantCondition":"Active"}`, `{"conditions":[{"type":"Ready","status":"True","observedGeneration":2}]}`, "Healthy"},
		"tenant that is not ready":     {"authentication", "Tenant", `{"tenantCondition":"Active"}`, `{"conditions":[{"type":"Ready","status":"False","reason":"ClusterIDTaken","observedGeneration":2}]}`, "Degraded"},
		"tenant judged before":         {"authentication", "Tenant", `{"tenantCondition":"Active"}`, `{"conditions":[{"type":"Ready","status":"True","observedGeneration":1}]}`, "Progressing"},
		"drained tenant":               {"authentication", "Tenant", `{"tenantCondition":"Drained"}`, `{}`, "Suspended"},
		"offloading that is ready":     {"offloading", "NamespaceOffloading", `{}`, `{"offloadingPhase":"Ready"}`, "Healthy"},
		"offloading that waits":        {"offloading", "NamespaceOffloading", `{}`, `{"offloadingPhase":"NoClusterSelected"}`, "Progressing"},
		"offloading that failed":       {"offloading", "NamespaceOffloading", `{}`, `{"offloadingPhase":"AllFailed","remoteNamespacesConditions":{"x":[{"type":"Ready","status":"False","message":"reserved"}]}}`, "Degraded"},
		"running virtual node":         {"offloading", "VirtualNode", `{}`, `{"conditions":[{"type":"VirtualKubelet","status":"Running"},{"type":"Node","status":"Running"}]}`, "Healthy"},
		"virtual node that is created": {"offloading", "VirtualNode", `{}`, `{"conditions":[{"type":"VirtualKubelet","status":"Creating"}]}`, "Progressing"},
		"tunnel":                       {"networking", "Connection", `{}`, `{"value":"Connected"}`, "Healthy"},
		"tunnel that is down":          {"networking", "Connection", `{}`, `{"value":"Error"}`, "Degraded"},
		"configuration":                {"networking", "Configuration", `{}`, `{"conditions":[{"type":"NetworkCIDRsConfigured","status":"True"}]}`, "Healthy"},
		"gateway without an address":   {"networking", "GatewayServer", `{}`, `{}`, "Progressing"},
		"gateway that is refused":      {"networking", "GatewayClient", `{}`, `{"conditions":[{"type":"Ready","status":"False","reason":"Invalid"}]}`, "Degraded"},
		"kind without a state":         {"networking", "PublicKey", `{}`, `{}`, "Healthy"},
	} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(dir, strings.ReplaceAll(name, " ", "-")+".json")
			object := fmt.Sprintf(`{"apiVersion":"%s.liqo.io/v1beta1","kind":%q,"metadata":{"name":"x","namespace":"y","generation":2},"spec":%s,"status":%s}`, c.group, c.kind, c.spec, c.status)
			if err := os.WriteFile(file, []byte(object), 0o600); err != nil {
				t.Fatal(err)
			}
			cmd := exec.Command(programs.Binary(argocd), "admin", "settings", "resource-overrides", "health", file, "--argocd-cm-path", config)
			out, err := cmd.CombinedOutput()
			if err != nil || !strings.Contains(string(out), "STATUS: "+c.want+"\n") {
				t.Errorf("want %s: %v\n%s", c.want, err, out)
			}
		})
	}
}

// argocdConfig is the ConfigMap argocd-cm with the script of the example for all kinds of Liqo.
func argocdConfig(t *testing.T) []byte {
	t.Helper()
	script, err := os.ReadFile(filepath.Join(example, "argocd-health.lua"))
	if err != nil {
		t.Fatal(err)
	}
	customizations := "\"*.liqo.io/*\":\n  health.lua: |\n    " + strings.ReplaceAll(strings.TrimSpace(string(script)), "\n", "\n    ") + "\n"
	out, err := json.Marshal(map[string]any{
		"apiVersion": "v1", "kind": "ConfigMap",
		"metadata": map[string]any{"name": "argocd-cm", "namespace": "argocd", "labels": map[string]string{"app.kubernetes.io/part-of": "argocd"}},
		"data":     map[string]string{"resource.customizations": customizations},
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// installArgoCD puts into the consumer's cluster what Argo CD reads: its CRDs, its configuration and the two clusters.
func installArgoCD(t *testing.T) {
	t.Helper()
	manifests := filepath.Join(programs.Source(argocd), "manifests")
	kubectl(t, consumer, "", "apply", "--server-side", "-k", filepath.Join(manifests, "crds"))
	if _, err := consumer.Kubectl("", "create", "namespace", "argocd"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = consumer.Kubectl("", "delete", "namespace", "argocd", "--wait=false") })
	kubectl(t, consumer, "", "apply", "-n", "argocd", "-k", filepath.Join(manifests, "base", "config"))
	kubectl(t, consumer, string(argocdConfig(t)), "apply", "--server-side", "--force-conflicts", "-f", "-")
	applyWhenKnown(t, consumer, `{"apiVersion":"argoproj.io/v1alpha1","kind":"AppProject","metadata":{"name":"default","namespace":"argocd"},
		"spec":{"sourceRepos":["*"],"destinations":[{"namespace":"*","server":"*"}],"clusterResourceWhitelist":[{"group":"*","kind":"*"}]}}`)
	kubectl(t, consumer, `{"apiVersion":"v1","kind":"Secret","metadata":{"name":"argocd-redis","namespace":"argocd"},"stringData":{"auth":""}}`, "apply", "-f", "-")
	for name, c := range map[string]*clusters.Cluster{"cluster-a": consumer, "cluster-b": provider} {
		config, err := json.Marshal(map[string]any{"tlsClientConfig": map[string]any{
			"caData": c.Config.CAData, "certData": c.Config.CertData, "keyData": c.Config.KeyData,
		}})
		if err != nil {
			t.Fatal(err)
		}
		secret, err := json.Marshal(map[string]any{
			"apiVersion": "v1", "kind": "Secret",
			"metadata":   map[string]any{"name": name, "namespace": "argocd", "labels": map[string]string{"argocd.argoproj.io/secret-type": "cluster"}},
			"stringData": map[string]string{"name": name, "server": c.Config.Host, "config": string(config)},
		})
		if err != nil {
			t.Fatal(err)
		}
		kubectl(t, consumer, string(secret), "apply", "-f", "-")
	}
}

// startArgoCD runs the application controller and the repository server, with a Redis of their own.
func startArgoCD(t *testing.T, dir string) {
	t.Helper()
	redis, repoServer := freePort(t), freePort(t)
	for _, folder := range []string{"tls", "ssh", "gpg", "plugins", "tmp"} {
		if err := os.Mkdir(filepath.Join(dir, folder), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	env := []string{
		"KUBECONFIG=" + consumer.Kubeconfig, "ARGOCD_FAKE_IN_CLUSTER=true", "ARGOCD_GPG_ENABLED=false",
		"ARGOCD_TLS_DATA_PATH=" + filepath.Join(dir, "tls"), "ARGOCD_SSH_DATA_PATH=" + filepath.Join(dir, "ssh"),
		"ARGOCD_GNUPGHOME=" + filepath.Join(dir, "gpg"), "ARGOCD_PLUGINSOCKFILEPATH=" + filepath.Join(dir, "plugins"),
		"ARGOCD_ASK_PASS_SOCK=" + filepath.Join(dir, "ask.sock"), "TMPDIR=" + filepath.Join(dir, "tmp"),
		"PATH=" + filepath.Dir(programs.Binary(kustomize)) + ":" + os.Getenv("PATH"),
	}
	startProcess(t, "redis", dir, nil, "redis-server", "--port", redis, "--bind", "127.0.0.1", "--save", "", "--appendonly", "no")
	startProcess(t, "argocd-repo-server", dir, append(env, "ARGOCD_BINARY_NAME=argocd-repo-server"), programs.Binary(argocd),
		"--address", "127.0.0.1", "--port", repoServer, "--metrics-address", "127.0.0.1", "--metrics-port", freePort(t), "--redis", loopback(redis), "--disable-tls")
	startProcess(t, "argocd-application-controller", dir, append(env, "ARGOCD_BINARY_NAME=argocd-application-controller", "HOSTNAME=argocd-application-controller-0"), programs.Binary(argocd),
		"--namespace", "argocd", "--repo-server", loopback(repoServer), "--repo-server-plaintext", "--redis", loopback(redis), "--metrics-port", freePort(t), "--kubeconfig", consumer.Kubeconfig)
}

// refresh has Argo CD look at Git now instead of within minutes.
func refresh(t *testing.T, kind string) {
	t.Helper()
	kubectl(t, consumer, "", append([]string{"annotate", "--overwrite", "-n", "argocd", "applications"}, append(applications, "argocd.argoproj.io/refresh="+kind)...)...)
}

// waitForApplications waits until Argo CD has looked at all that it was asked to and says Synced and Healthy of each Application.
func waitForApplications(t *testing.T) {
	t.Helper()
	for _, name := range applications {
		eventually(t, "the Application "+name, func() error {
			out, err := consumer.Kubectl("", "get", "application", "-n", "argocd", name, "-o",
				`jsonpath={.status.sync.status} {.status.health.status}{.metadata.annotations.argocd\.argoproj\.io/refresh}`)
			if err == nil && out != "Synced Healthy" {
				err = fmt.Errorf("it is %q", out)
				if reason, e := consumer.Kubectl("", "get", "application", "-n", "argocd", name, "-o",
					`jsonpath={.status.conditions}{.status.operationState.message}{range .status.resources[*]}{"\n"}{.kind} {.name}: {.status} {.health.status} {.health.message}{end}`); e == nil {
					err = fmt.Errorf("%w; %s", err, reason)
				}
			}
			return err
		})
	}
}

// syncHistory counts how often each Application was synced.
func syncHistory(t *testing.T) string {
	t.Helper()
	return kubectl(t, consumer, "", "get", "applications", "-n", "argocd", "-o", `jsonpath={range .items[*]}{.metadata.name}: {.status.history[*].id}, {.status.operationState.finishedAt}; {end}`)
}
