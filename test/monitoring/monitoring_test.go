// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package monitoring

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/kubernetes"

	"liqo.io/liqo/test/clusters"
	"liqo.io/liqo/test/story"
)

// patience is how long anything may take on a slow machine.
const patience = 5 * time.Minute

// jobs are those of a cluster with a virtual node, and of its peer.
var (
	providerJobs = []string{"liqo-controller-manager-metrics", "liqo/liqo-crd-replicator", "liqo/liqo-fabric", "liqo/liqo-gateway", "liqo/liqo-metric-agent", "liqo/liqo-proxy"}
	consumerJobs = append([]string{"liqo/liqo-virtual-kubelet"}, providerJobs...)
)

func TestPrometheus(t *testing.T) {
	t.Cleanup(func() { show(t) })
	for _, c := range []*clusters.Cluster{consumer, provider} {
		startPrometheus(t, c)
		if err := c.Install("--set", "controllerManager.replicas=1,metrics.enabled=true,metrics.prometheusOperator.enabled=true,metrics.grafanaDashboards.enabled=true"); err != nil {
			t.Fatal(err)
		}
	}
	if out, err := consumer.Say("peer", "--remote-kubeconfig", provider.Kubeconfig); err != nil {
		t.Fatal(err, out)
	}
	kubectl(t, consumer, "", "create", "namespace", "demo")
	if out, err := consumer.Say("offload", "namespace", "demo", "--pod-offloading-strategy", "Remote"); err != nil {
		t.Fatal(err, out)
	}
	kubectl(t, consumer, "", "create", "deployment", "web", "-n", "demo", "--image", "docker.io/playground/httpd:v1", "--replicas", "2")
	kubectl(t, consumer, "", "expose", "deployment", "web", "-n", "demo", "--port", "80")
	kubectl(t, consumer, "", "rollout", "status", "deployment/web", "-n", "demo", "--timeout", "3m")

	t.Run("targets", func(t *testing.T) {
		waitForTargets(t, consumer, consumerJobs)
		waitForTargets(t, provider, providerJobs)
	})
	t.Run("panels", func(t *testing.T) {
		for dashboard, queries := range panelQueries(t) {
			for panel, query := range queries {
				story.Eventually(t, dashboard+", "+panel, patience, func(ctx context.Context) error { return hasData(ctx, query) })
			}
		}
	})
	t.Run("rules", func(t *testing.T) {
		for _, c := range []*clusters.Cluster{consumer, provider} {
			story.Eventually(t, "all rules to be evaluated in "+c.ID, patience, func(ctx context.Context) error { return rulesEvaluated(ctx, c) })
		}
	})
}

// startPrometheus applies the manifests that the operator's authors publish, and a Prometheus.
func startPrometheus(t *testing.T, c *clusters.Cluster) {
	t.Helper()
	kubectl(t, c, "", "apply", "--server-side", "--force-conflicts", "-f", filepath.Join(programs.Source(operator), "bundle.yaml"))
	kubectl(t, c, "", "wait", "--for", "condition=Established", "crd/prometheuses.monitoring.coreos.com", "crd/podmonitors.monitoring.coreos.com", "--timeout", "3m")
	manifest, err := os.ReadFile("testdata/prometheus.yaml")
	if err != nil {
		t.Fatal(err)
	}
	kubectl(t, c, strings.ReplaceAll(string(manifest), "PROMETHEUS_VERSION", prometheusVersion), "apply", "-f", "-")
}

func kubectl(t *testing.T, c *clusters.Cluster, stdin string, args ...string) {
	t.Helper()
	if _, err := c.Kubectl(stdin, args...); err != nil {
		t.Fatal(err)
	}
}

// ask sends a request to the HTTP API of a cluster's Prometheus, and decodes the data of its answer.
func ask(ctx context.Context, c *clusters.Cluster, path string, params map[string]string, data any) error {
	clientset, err := kubernetes.NewForConfig(c.Config)
	if err != nil {
		return err
	}
	raw, err := clientset.CoreV1().Services("monitoring").ProxyGet("http", "prometheus-operated", "9090", path, params).DoRaw(ctx)
	if err != nil {
		return fmt.Errorf("asking Prometheus in %s for %s: %w: %s", c.ID, path, err, raw)
	}
	return json.Unmarshal(raw, &struct{ Data any }{data})
}

// waitForTargets waits until each job has a target and all targets answer.
func waitForTargets(t *testing.T, c *clusters.Cluster, jobs []string) {
	t.Helper()
	story.Eventually(t, "the targets of "+c.ID, patience, func(ctx context.Context) error {
		var answer struct {
			ActiveTargets []struct {
				Labels            map[string]string
				Health, LastError string
			}
		}
		if err := ask(ctx, c, "/api/v1/targets", map[string]string{"state": "active"}, &answer); err != nil {
			return err
		}
		found := map[string]bool{}
		for _, target := range answer.ActiveTargets {
			if found[target.Labels["job"]] = true; target.Health != "up" {
				return fmt.Errorf("%s of %s is %s: %s", target.Labels["instance"], target.Labels["job"], target.Health, target.LastError)
			}
		}
		if got := slices.Sorted(maps.Keys(found)); !slices.Equal(got, slices.Sorted(slices.Values(jobs))) {
			return fmt.Errorf("the jobs are %q, want %q", got, jobs)
		}
		return nil
	})
}

// panelQueries returns the queries of the chart's dashboards by title and reference, for all peers.
func panelQueries(t *testing.T) map[string]map[string]string {
	t.Helper()
	files, err := filepath.Glob("../../deploy/chart/files/dashboards/*.json")
	if err != nil || len(files) == 0 {
		t.Fatalf("%d dashboards: %v", len(files), err)
	}
	out := map[string]map[string]string{}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var dashboard struct {
			Title  string
			Panels []struct {
				Title   string
				Targets []struct{ RefID, Expr string }
			}
		}
		if err := json.Unmarshal(data, &dashboard); err != nil {
			t.Fatal(err)
		}
		queries := map[string]string{}
		for _, panel := range dashboard.Panels {
			for _, target := range panel.Targets {
				queries[panel.Title+" "+target.RefID] = strings.ReplaceAll(target.Expr, "$peer", ".*")
			}
		}
		out[dashboard.Title] = queries
	}
	return out
}

// hasData reports whether one of the clusters has data for a query: some figures are those of consumers, others those of providers.
func hasData(ctx context.Context, query string) error {
	for _, c := range []*clusters.Cluster{consumer, provider} {
		var answer struct{ Result []json.RawMessage }
		if err := ask(ctx, c, "/api/v1/query", map[string]string{"query": query}, &answer); err != nil {
			return err
		}
		if len(answer.Result) > 0 {
			return nil
		}
	}
	return fmt.Errorf("no data for %s", query)
}

// rulesEvaluated returns an error unless Prometheus has evaluated all rules of the chart without an error, no alert fires, and none waits for
// series that are absent.
func rulesEvaluated(ctx context.Context, c *clusters.Cluster) error {
	var answer struct {
		Groups []struct {
			Rules []struct{ Name, Query, State, Health, LastError string }
		}
	}
	if err := ask(ctx, c, "/api/v1/rules", nil, &answer); err != nil {
		return err
	}
	count := 0
	for _, group := range answer.Groups {
		for _, rule := range group.Rules {
			isAbsent := rule.State == "pending" && strings.Contains(rule.Query, "absent(")
			if rule.Health != "ok" || rule.State == "firing" || isAbsent {
				return fmt.Errorf("%s is %s, %s: %s", rule.Name, rule.State, rule.Health, rule.LastError)
			}
			count++
		}
	}
	if count == 0 {
		return fmt.Errorf("Prometheus in %s has no rules", c.ID)
	}
	return nil
}

// show prints what a reader of a failure asks first.
func show(t *testing.T) {
	t.Helper()
	if !t.Failed() {
		return
	}
	for _, c := range []*clusters.Cluster{consumer, provider} {
		for _, args := range [][]string{
			{"get", "pods,foreignclusters,podmonitors,servicemonitors,prometheuses", "-A", "-o", "wide"},
			{"logs", "deployment/prometheus-operator", "--tail", "20"},
			{"logs", "-n", "monitoring", "prometheus-liqo-0", "--all-containers", "--prefix", "--tail", "20"},
		} {
			out, err := c.Kubectl("", args...)
			t.Logf("%s $ kubectl %v\n%s%v", c.ID, args, out, err)
		}
	}
}
