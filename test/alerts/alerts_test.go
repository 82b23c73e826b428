// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

// Package alerts evaluates the chart's rules and the queries of its dashboards with the engine of Prometheus.
package alerts

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/common/promslog"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/promql/promqltest"
	"github.com/prometheus/prometheus/rules"
	"sigs.k8s.io/yaml"
)

const rulesFile = "../../deploy/chart/files/alerts.yaml"

// testCase is what happens to some series, and the summaries of the alerts that fire at points in time.
type testCase struct {
	Name   string
	Series string
	// Alone has no processes but those in Series.
	Alone  bool
	Alerts map[string][]string // by time since the start
}

// allUp returns that the processes that the chart's monitors scrape are up. It holds in all cases that are not alone.
func allUp(t *testing.T) string {
	t.Helper()
	var series strings.Builder
	for _, job := range monitoredJobs(t) {
		fmt.Fprintf(&series, "up{job=%q,instance=\"0\"} 1x400\n", job)
	}
	return series.String()
}

// interval is the time between two samples, and between two evaluations.
const interval = 30 * time.Second

func TestAlerts(t *testing.T) {
	data, err := os.ReadFile("testdata/alerts.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var cases []testCase
	if err := yaml.UnmarshalStrict(data, &cases); err != nil {
		t.Fatal(err)
	}
	fired := map[string]bool{}
	for _, test := range cases {
		if !test.Alone {
			test.Series = allUp(t) + test.Series
		}
		t.Run(test.Name, func(t *testing.T) {
			for at, want := range test.Alerts {
				after, err := time.ParseDuration(at)
				if err != nil {
					t.Fatal(err)
				}
				got := firingAfter(t, test.Series, after, fired)
				if diff := cmp.Diff(want, got); diff != "" && len(want)+len(got) > 0 {
					t.Errorf("after %s (-want +got):\n%s", at, diff)
				}
			}
		})
	}
	for _, group := range loadGroups(t, nil) {
		for _, rule := range group.Rules() {
			if !fired[rule.Name()] {
				t.Errorf("no case fires %s", rule.Name())
			}
		}
	}
}

// firingAfter returns the alerts that fire, with their summaries, sorted.
func firingAfter(t *testing.T, series string, after time.Duration, fired map[string]bool) (firing []string) {
	t.Helper()
	storage := promqltest.LoadedStorage(t, fmt.Sprintf("load %s\n%s", interval, indent(series)))
	defer storage.Close()
	engine := promqltest.NewTestEngine(t, false, 0, 1e6)
	groups := loadGroups(t, &rules.ManagerOptions{QueryFunc: rules.EngineQueryFunc(engine, storage), AppendableV2: storage})
	for at := time.Duration(0); at <= after; at += interval {
		for _, group := range groups {
			group.Eval(t.Context(), time.Unix(0, 0).Add(at))
			for _, rule := range group.Rules() {
				if err := rule.LastError(); err != nil {
					t.Fatalf("evaluating %s: %v", rule.Name(), err)
				}
			}
		}
	}
	for _, group := range groups {
		for _, rule := range group.AlertingRules() {
			for _, alert := range rule.ActiveAlerts() {
				if alert.State == rules.StateFiring {
					fired[rule.Name()] = true
					firing = append(firing, rule.Name()+": "+alert.Annotations.Get("summary"))
				}
			}
		}
	}
	slices.Sort(firing)
	return firing
}

func indent(series string) string {
	var out strings.Builder
	for line := range strings.Lines(series) {
		out.WriteString("  " + line)
	}
	return out.String()
}

// loadGroups returns the groups of rules of the chart, in the order of their names.
func loadGroups(t *testing.T, o *rules.ManagerOptions) (groups []*rules.Group) {
	t.Helper()
	if o == nil {
		o = &rules.ManagerOptions{}
	}
	o.Context, o.Logger, o.Parser = t.Context(), promslog.NewNopLogger(), parser.NewParser(parser.Options{})
	o.NotifyFunc = func(context.Context, string, ...*rules.Alert) {}
	loaded, errs := rules.NewManager(o).LoadGroups(interval, labels.EmptyLabels(), "", nil, false, rulesFile)
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	for _, group := range loaded {
		groups = append(groups, group)
	}
	slices.SortFunc(groups, func(a, b *rules.Group) int { return strings.Compare(a.Name(), b.Name()) })
	return groups
}

// foreign are the metrics of the libraries and of Prometheus itself that queries use.
var foreign = []string{
	"up", "controller_runtime_reconcile_errors_total", "controller_runtime_reconcile_total", "process_cpu_seconds_total",
	"process_resident_memory_bytes", "rest_client_requests_total", "workqueue_depth",
}

// ownMetrics returns the metrics that the source code of the product defines.
func ownMetrics(t *testing.T) map[string]bool {
	t.Helper()
	names := map[string]bool{}
	literal := regexp.MustCompile(`"(liqo_[a-z_]+)"`)
	err := filepath.WalkDir("../../internal", func(path string, entry os.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		data, err := os.ReadFile(path)
		for _, found := range literal.FindAllStringSubmatch(string(data), -1) {
			names[found[1]] = true
		}
		return err
	})
	if err != nil || len(names) == 0 {
		t.Fatalf("%d metrics: %v", len(names), err)
	}
	return names
}

// checkQuery reports an invalid query, and metrics that no process has.
func checkQuery(t *testing.T, query string, own map[string]bool) {
	t.Helper()
	expr, err := parser.NewParser(parser.Options{}).ParseExpr(query)
	if err != nil {
		t.Errorf("parsing %s: %v", query, err)
		return
	}
	for _, selectors := range parser.ExtractSelectors(expr) {
		for _, matcher := range selectors {
			name := strings.TrimSuffix(matcher.Value, "_bucket")
			if matcher.Name == labels.MetricName && !own[name] && !slices.Contains(foreign, name) {
				t.Errorf("%s: no metric has the name %s", query, matcher.Value)
			}
		}
	}
}

func TestQueries(t *testing.T) {
	own := ownMetrics(t)
	for _, group := range loadGroups(t, nil) {
		for _, rule := range group.Rules() {
			checkQuery(t, rule.Query().String(), own)
		}
	}
	files, err := filepath.Glob("../../deploy/chart/files/dashboards/*.json")
	if err != nil || len(files) != 4 {
		t.Fatalf("%d dashboards: %v", len(files), err)
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var dashboard struct {
			UID, Title string
			Panels     []struct {
				ID      int
				Title   string
				Targets []struct{ Expr string }
			}
		}
		if err := json.Unmarshal(data, &dashboard); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		if want := "liqo-" + strings.TrimSuffix(filepath.Base(file), ".json"); dashboard.UID != want || dashboard.Title == "" || len(dashboard.Panels) == 0 {
			t.Errorf("%s: uid %q, want %q; title %q, %d panels", file, dashboard.UID, want, dashboard.Title, len(dashboard.Panels))
		}
		for i, panel := range dashboard.Panels {
			if panel.ID != i+1 || panel.Title == "" || len(panel.Targets) == 0 {
				t.Errorf("%s: panel %d has ID %d, title %q and %d queries", file, i, panel.ID, panel.Title, len(panel.Targets))
			}
			for _, target := range panel.Targets {
				checkQuery(t, strings.ReplaceAll(target.Expr, "$peer", ".*"), own)
			}
		}
	}
}

// TestRunbooks compares the rules with the page that explains them.
func TestRunbooks(t *testing.T) {
	page, err := os.ReadFile("../../docs/alerts.md")
	if err != nil {
		t.Fatal(err)
	}
	var want []string
	for _, found := range regexp.MustCompile(`(?m)^### (Liqo\w+)$`).FindAllStringSubmatch(string(page), -1) {
		want = append(want, found[1])
	}
	var got []string
	for _, group := range loadGroups(t, nil) {
		for _, rule := range group.AlertingRules() {
			got = append(got, rule.Name())
			if runbook := "docs/alerts.md#" + strings.ToLower(rule.Name()); rule.Annotations().Get("runbook") != runbook {
				t.Errorf("%s: the runbook is %q, want %q", rule.Name(), rule.Annotations().Get("runbook"), runbook)
			}
			if severity := rule.Labels().Get("severity"); !regexp.MustCompile(`(?ms)^### ` + rule.Name() + `\n\n` + severity + `\b`).Match(page) {
				t.Errorf("%s: docs/alerts.md does not begin with its severity, %s", rule.Name(), severity)
			}
		}
	}
	slices.Sort(want)
	slices.Sort(got)
	if diff := cmp.Diff(got, want); diff != "" {
		t.Errorf("alerts and runbooks differ (-alerts +runbooks):\n%s", diff)
	}
}
