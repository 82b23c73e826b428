// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package virtualkubelet

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/internal/multicluster"
	"liqo.io/liqo/internal/names"
	"liqo.io/liqo/internal/testkit"
)

// metricsOf serves pages of a provider for a node with the pods web/a and db/b.
func metricsOf(pages map[string]string, err error) (*podMetrics, http.Handler) {
	m := &podMetrics{
		open: func(_ context.Context, path string) (io.ReadCloser, error) {
			return io.NopCloser(strings.NewReader(pages[path])), err
		},
		resources: resourceMetrics{
			list: func(context.Context, string) (podMetricsList, error) {
				return podMetricsList{}, apierrors.NewNotFound(schema.GroupResource{}, "")
			},
			pairs: func() []multicluster.Pair {
				return []multicluster.Pair{{Local: "web", Remote: "web-rome"}, {Local: "db", Remote: "db-rome"}, {Local: "idle", Remote: "idle-rome"}}
			},
		},
		list: func(context.Context) (localPods, error) {
			return localPods{{Namespace: "web", Name: "a"}: "uid-a", {Namespace: "db", Name: "b"}: "uid-b"}, nil
		},
		changed: func() {}, node: "milan", started: time.UnixMilli(1), now: func() time.Time { return time.UnixMilli(9000) }, log: logr.Discard(),
	}
	mux := http.NewServeMux()
	m.addHandlers(mux)
	return m, mux
}

func scrape(t *testing.T, h http.Handler, path string) (int, string) {
	t.Helper()
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil))
	return w.Code, w.Body.String()
}

func resourcePage(lines ...string) string {
	return "# HELP pod_cpu_usage_seconds_total [STABLE] text\n# TYPE pod_cpu_usage_seconds_total counter\n" + strings.Join(lines, "\n") + "\n"
}

func TestMetricsPages(t *testing.T) {
	own := `container_fs_reads_total{namespace="web",pod="a"} 1 8000`
	_, h := metricsOf(map[string]string{
		"/metrics/cadvisor": "# TYPE container_fs_reads_total counter\n" + own + `
container_fs_reads_total{namespace="web",pod="of-another-node"} 2 8000
container_fs_reads_total{namespace="we",pod="b/a"} 3 8000
machine_cpu_cores 4
`,
		"/metrics/probes": `prober_probe_total{namespace="db",pod="b",pod_uid="remote"} 1
prober_probe_total{namespace="web",pod="b",pod_uid="remote"} 1
`,
		"/metrics": `kubelet_volume_stats_used_bytes{namespace="web",persistentvolumeclaim="data"} 5
kubelet_volume_stats_used_bytes{namespace="other",persistentvolumeclaim="data"} 6
kubelet_running_pods 99
`,
		"/stats/summary": `{"node":{"nodeName":"of-the-provider","cpu":{"usageNanoCores":999}},"pods":[
			{"podRef":{"name":"a","namespace":"web","uid":"x"},"cpu":{"time":"1970-01-01T00:00:08Z","usageNanoCores":5,"usageCoreNanoSeconds":2000000000},"memory":{"workingSetBytes":100},"network":{"name":"eth0"}},
			{"podRef":{"name":"b","namespace":"db","uid":"y"},"cpu":{"time":"1970-01-01T00:00:08Z","usageNanoCores":6,"usageCoreNanoSeconds":3000000000},"memory":{"workingSetBytes":200}},
			{"podRef":{"name":"c","namespace":"db","uid":"z"},"cpu":{"time":"1970-01-01T00:00:08Z","usageNanoCores":7,"usageCoreNanoSeconds":4000000000},"memory":{"workingSetBytes":400}}]}`,
	}, nil)
	for path, want := range map[string]string{
		"/metrics/cadvisor": "# TYPE container_fs_reads_total counter\n" + own + "\n",
		"/metrics/probes":   `prober_probe_total{namespace="db",pod="b",pod_uid="uid-b"} 1` + "\n",
		"/metrics":          `kubelet_volume_stats_used_bytes{namespace="web",persistentvolumeclaim="data"} 5` + "\n",
	} {
		if status, body := scrape(t, h, path); status != http.StatusOK || body != want {
			t.Errorf("%s is %d %s", path, status, cmp.Diff(want, body))
		}
	}
	var summary nodeSummary
	_, body := scrape(t, h, "/stats/summary")
	if err := json.Unmarshal([]byte(body), &summary); err != nil {
		t.Fatal(err)
	}
	node := summary.Node
	if node.NodeName != "milan" || node.CPU.UsageNanoCores != 11 || node.CPU.UsageCoreNanoSeconds != 5000000001 || node.Memory.WorkingSetBytes != 300 || len(summary.Pods) != 2 {
		t.Errorf("the summary is %s", body)
	}
	if got := string(summary.Pods[0]["podRef"]) + string(summary.Pods[0]["network"]); got != `{"name":"a","namespace":"web","uid":"uid-a"}{"name":"eth0"}` {
		t.Errorf("the pod is %s", got)
	}
}

func TestMetricsResource(t *testing.T) {
	pages := map[string]string{}
	_, h := metricsOf(pages, nil)
	page := func(a, b float64, at int) string {
		return resourcePage(
			fmt.Sprintf(`pod_cpu_usage_seconds_total{namespace="web",pod="a"} %v %d`, a, at), fmt.Sprintf(`pod_cpu_usage_seconds_total{namespace="db",pod="b"} %v %d`, b, at),
			fmt.Sprintf(`pod_cpu_usage_seconds_total{namespace="db",pod="c"} 1000 %d`, at), `pod_memory_working_set_bytes{namespace="web",pod="a"} 10`, `pod_memory_working_set_bytes{namespace="db",pod="b"} 20`,
			"node_cpu_usage_seconds_total 5000")
	}
	for _, tc := range []struct {
		name, page string
		cpu        string
		memory, at int
	}{
		{"first", page(1, 2, 1000), "3.000000001", 30, 1000},
		{"later", page(2, 4, 2000), "6.000000001", 30, 2000},
		{"older page of another replica", page(1, 2, 1000), "6.000000001", 30, 2000},
		{"pod was recreated", page(0.5, 4, 3000), "6.500000001", 30, 3000},
		{"page without pods", "", "6.500000001", 1, 9000},
		{"pods are back", page(1, 5, 10000), "8.000000001", 30, 10000},
	} {
		pages["/metrics/resource"] = tc.page
		_, body := scrape(t, h, "/metrics/resource")
		for _, want := range []string{
			fmt.Sprintf("\nnode_cpu_usage_seconds_total %s %d\n", tc.cpu, tc.at), fmt.Sprintf("\nnode_memory_working_set_bytes %d %d\n", tc.memory, tc.at), "\nresource_scrape_error 0\n",
		} {
			if !strings.Contains("\n"+body, want) {
				t.Errorf("%s: no %q in %s", tc.name, want, body)
			}
		}
		if strings.Contains(body, `pod="c"`) || strings.Contains(body, "total 5000") {
			t.Errorf("%s: figures of others in %s", tc.name, body)
		}
	}
}

// TestUsageSumsRate checks that the rate of the node is that of its pods, though kubelets measure each at another time.
func TestUsageSumsRate(t *testing.T) {
	var sums usageSums
	pods := localPods{{Name: "a"}: "", {Name: "b"}: ""}
	base := time.UnixMilli(1_700_000_000_000)
	at := func(seconds float64) time.Time { return base.Add(time.Duration(seconds * float64(time.Second))) }
	usage := func(a, b float64) map[types.NamespacedName]podUsage {
		return map[types.NamespacedName]podUsage{{Name: "a"}: {cpu: 3 * a, at: at(a)}, {Name: "b"}: {cpu: b, at: at(b)}}
	}
	before := sums.addUsage(usage(100, 107), pods, at(110))
	after := sums.addUsage(usage(120, 122), pods, at(125))
	if rate := (after.cpu - before.cpu) / after.at.Sub(before.at).Seconds(); rate < 3.8 || rate > 4.2 {
		t.Errorf("rate is %v, want 4", rate)
	}
}

func TestMetricsUnavailable(t *testing.T) {
	m, h := metricsOf(nil, &errNoMetrics{"NoMetricAgent", "install it"})
	changes := 0
	m.changed = func() { changes++ }
	for range 3 {
		if status, body := scrape(t, h, "/metrics/resource"); status != http.StatusOK || body != "" {
			t.Errorf("%d %s", status, body)
		}
	}
	if none := m.missing.Load(); none == nil || none.reason != "NoMetricAgent" || changes != 1 {
		t.Errorf("%v after %d changes", none, changes)
	}
	open := m.open
	m.open = func(context.Context, string) (io.ReadCloser, error) { return nil, errors.New("no route") }
	if status, body := scrape(t, h, "/metrics/resource"); status != http.StatusBadGateway || !strings.Contains(body, "no route") || m.missing.Load() == nil {
		t.Errorf("%d %s", status, body)
	}
	m.open = func(ctx context.Context, path string) (io.ReadCloser, error) {
		in, _ := open(ctx, path)
		return in, nil
	}
	if status, _ := scrape(t, h, "/metrics/resource"); status != http.StatusOK || m.missing.Load() != nil || changes != 2 {
		t.Errorf("%d, missing is %v after %d changes", status, m.missing.Load(), changes)
	}
	m.open = func(context.Context, string) (io.ReadCloser, error) {
		return io.NopCloser(strings.NewReader("cut o")), nil
	}
	if status, body := scrape(t, h, "/metrics/resource"); status != http.StatusBadGateway {
		t.Errorf("a page that is cut off: %d %s", status, body)
	}
}

func TestMetricsFromMetricsServer(t *testing.T) {
	m, h := metricsOf(nil, &errNoMetrics{"NoMetricAgent", "install it"})
	second := 0
	m.resources.list = func(_ context.Context, namespace string) (out podMetricsList, err error) {
		if namespace == "idle-rome" {
			t.Error("a namespace without pods is listed")
		}
		item := `{"metadata":{"name":"%s"},"timestamp":"1970-01-01T00:00:%02dZ","window":"10s","containers":[{"name":"main","usage":{"cpu":"500m","memory":"1Ki"}},{"name":"side","usage":{"cpu":"0","memory":"1Ki"}},{"name":"\u0000\"","usage":{}}]}`
		return out, json.Unmarshal(fmt.Appendf(nil, `{"items":[`+item+","+item+`]}`, map[string]string{"web-rome": "a", "db-rome": "b"}[namespace], second, "of-another-node", second), &out)
	}
	for _, tc := range []struct {
		second          int
		container, node string
	}{
		{10, "5", "10.000000003"},
		{10, "5", "10.000000003"}, // the same measurement again
		{30, "15", "30.000000005"},
		{20, "15", "30.000000005"}, // an older one, of another replica
	} {
		second = tc.second
		_, body := scrape(t, h, "/metrics/resource")
		at := map[bool]int{true: 10000, false: 30000}[second == 10]
		for _, want := range []string{
			fmt.Sprintf("container_cpu_usage_seconds_total{container=%q,namespace=%q,pod=%q} %s %d\n", "main", "web", "a", tc.container, at),
			fmt.Sprintf("container_memory_working_set_bytes{container=%q,namespace=%q,pod=%q} 1024 %d\n", "side", "db", "b", at),
			fmt.Sprintf("\nnode_cpu_usage_seconds_total %s %d\n", tc.node, at), fmt.Sprintf("\nnode_memory_working_set_bytes 4096 %d\n", at),
		} {
			if !strings.Contains(body, want) {
				t.Errorf("after %d s: no %q in %s", second, want, body)
			}
		}
		if strings.Contains(body, "of-another-node") || strings.Contains(body, `\u`) || m.missing.Load() != nil {
			t.Errorf("after %d s: %v, %s", second, m.missing.Load(), body)
		}
	}
	var summary nodeSummary
	_, body := scrape(t, h, "/stats/summary")
	if err := json.Unmarshal([]byte(body), &summary); err != nil {
		t.Fatal(err)
	}
	if cpu := summary.Node.CPU.UsageNanoCores; cpu != 1e9 || len(summary.Pods) != 2 || !strings.Contains(string(summary.Pods[0]["containers"]), `"name":"side"`) {
		t.Errorf("the summary is %s", body)
	}
	if status, body := scrape(t, h, "/metrics/cadvisor"); status != http.StatusOK || body != "" || m.missing.Load() != nil {
		t.Errorf("other pages: %d %s", status, body)
	}
}

// TestMetricsOfProvider checks what is asked of the provider, and what its answers mean.
func TestMetricsOfProvider(t *testing.T) {
	pack := func(text string) string {
		var out bytes.Buffer
		w := gzip.NewWriter(&out)
		_, _ = io.WriteString(w, text)
		_ = w.Close()
		return out.String()
	}
	status := func(code int, message string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(code)
			_ = json.NewEncoder(w).Encode(metav1.Status{TypeMeta: metav1.TypeMeta{Kind: "Status"}, Message: message})
		}
	}
	for name, tc := range map[string]struct {
		answer       http.HandlerFunc
		page, reason string
		err          string
	}{
		"plain": {answer: func(w http.ResponseWriter, req *http.Request) {
			fmt.Fprintf(w, "%s %s %s %s", req.URL, req.Header.Get("Authorization"), req.Header.Get("Accept-Encoding"), req.Header.Get("Cookie"))
		}, page: "/apis/metrics.liqo.io/v1beta1/scrape/rome/metrics/resource Bearer ours gzip "},
		"compressed": {answer: func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Encoding", "gzip")
			_, _ = io.WriteString(w, pack("a 1\n"))
		}, page: "a 1\n"},
		"truncated": {answer: func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Encoding", "gzip")
			_, _ = io.WriteString(w, pack("a 1\n")[:15])
		}, err: "unexpected EOF"},
		"no agent":          {answer: status(404, "not found"), reason: "NoMetricAgent", err: "metricAgent.enabled"},
		"agent away":        {answer: status(503, "no \x1b[31mkubelet\nanswers"), reason: "MetricAgentFails", err: "has no metrics: no"},
		"no right":          {answer: status(403, "forbidden"), reason: "MetricAgentFails", err: "forbidden"},
		"credentials ended": {answer: status(401, "Unauthorized"), err: "Unauthorized"},
		"redirected": {answer: func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Location", "https://x/")
			w.WriteHeader(302)
		}, err: "302"},
		"error without body": {answer: func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(500) }, err: "500"},
	} {
		t.Run(name, func(t *testing.T) {
			in, err := upstreamOf(t, nil, tc.answer).openPage(t.Context(), agentPath("rome", "/metrics/resource"))
			if err == nil {
				defer in.Close()
				var page []byte
				if page, err = io.ReadAll(in); err == nil && string(page) != tc.page {
					t.Errorf("the page is %q", page)
				}
			}
			none, _ := errors.AsType[*errNoMetrics](err)
			if (err != nil) != (tc.err != "") || err != nil && (!strings.Contains(err.Error(), tc.err) || strings.ContainsAny(err.Error(), "\x1b\n")) {
				t.Errorf("the error is %v", err)
			}
			if (none != nil) != (tc.reason != "") || none != nil && none.reason != tc.reason {
				t.Errorf("missing: %v", none)
			}
		})
	}
}

func TestMetricsPageLimit(t *testing.T) {
	for size, want := range map[int]error{9: nil, 10: nil, 11: errLargePage, 1000: errLargePage} {
		if _, err := io.ReadAll(&limitedPage{strings.NewReader(strings.Repeat("x", size)), 10}); !errors.Is(err, want) {
			t.Errorf("%d bytes: %v, want %v", size, err, want)
		}
	}
}

// TestMetricsSwitch checks that no client sees the counters of one source after those of the other.
func TestMetricsSwitch(t *testing.T) {
	m, h := metricsOf(nil, nil)
	now := time.UnixMilli(1_000_000)
	m.now = func() time.Time { return now }
	away := &errNoMetrics{reasonAgentFails, "no answer"}
	m.open = func(context.Context, string) (io.ReadCloser, error) { return nil, away }
	m.resources.list = func(context.Context, string) (out podMetricsList, err error) {
		return out, json.Unmarshal(fmt.Appendf(nil, `{"items":[{"metadata":{"name":"a"},"timestamp":%q,"window":"10s","containers":[{"name":"main","usage":{"cpu":"1"}}]}]}`, now.UTC().Format(time.RFC3339)), &out)
	}
	want := func(what, cpu string) {
		t.Helper()
		_, body := scrape(t, h, "/metrics/resource")
		if cpu == "" && body != "" || cpu != "" && !strings.Contains(body, "\nnode_cpu_usage_seconds_total "+cpu) {
			t.Errorf("%s: no %q in %s", what, cpu, body)
		}
		now = now.Add(30 * time.Second)
	}
	want("an agent that never answered", "10.000000001 ")
	m.open = func(context.Context, string) (io.ReadCloser, error) {
		return io.NopCloser(strings.NewReader(fmt.Sprintf("pod_cpu_usage_seconds_total{namespace=\"web\",pod=\"a\"} 5000 %d\n", now.UnixMilli()))), nil
	}
	for range 3 {
		want("the agent answers now", "")
	}
	want("after the pause", "5000.000000001 ")
	answering := m.open
	m.open = func(context.Context, string) (io.ReadCloser, error) { return nil, away }
	if want("the agent is away", ""); m.missing.Load() != away {
		t.Errorf("missing is %v", m.missing.Load())
	}
	m.open = answering
	if want("the agent is back", "5000.000000001 "); m.missing.Load() != nil {
		t.Errorf("missing is %v", m.missing.Load())
	}
	m.open = func(context.Context, string) (io.ReadCloser, error) { return nil, &errNoMetrics{reasonNoAgent, "gone"} }
	for range 3 {
		want("the agent is gone", "")
	}
	if want("after the second pause", "310.000000001 "); m.missing.Load() != nil {
		t.Errorf("missing is %v", m.missing.Load())
	}
}

// TestMetricsSources scrapes the node of a provider without metrics, with its metrics-server, and with the agent.
func TestMetricsSources(t *testing.T) {
	s := newTestEnv(t, nil)
	stop := s.run()
	s.pod(s.local, "a")
	s.runRemotely(eventually(s, s.provider, s.shadow("a"), exists), "10.7.0.9")
	eventually(s, s.consumer, s.localPod("a"), phaseIs(corev1.PodRunning))
	admin := clientOf(t, s.consumer.Config)
	scraped := func(page string, condition bool) {
		t.Helper()
		testkit.Eventually(t, limit, func() error {
			resp, err := admin.Get(fmt.Sprintf("https://127.0.0.1:%d/metrics/resource", s.options.ListenPort))
			if err != nil {
				return err
			}
			defer resp.Body.Close()
			got, err := io.ReadAll(resp.Body)
			if err != nil || resp.StatusCode != http.StatusOK || !strings.Contains(string(got), page) || (page == "") != (len(got) == 0) {
				return fmt.Errorf("the page is %s %s, %v", resp.Status, got, err)
			}
			node := &corev1.Node{}
			if err := s.consumer.Client.Get(t.Context(), client.ObjectKey{Name: s.node}, node); err != nil {
				return err
			}
			if c, ok := conditionOf(node, conditionMetrics); ok != condition || ok && (c.Status != corev1.ConditionFalse || c.Reason != "NoMetricAgent") {
				return fmt.Errorf("the condition is %+v", c)
			}
			return nil
		})
	}
	scraped("", true)

	serve := func(group, version, path, page string) {
		api, address := testkit.AggregatedAPI(t, s.provider, group, version, s.remoteNamespace, strings.ReplaceAll(group, ".", "-"), true)
		listener, err := net.Listen("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			switch req.URL.Path {
			case path:
				_, _ = io.WriteString(w, page)
			case "/apis/" + group + "/" + version:
				fmt.Fprintf(w, `{"kind":"APIResourceList","apiVersion":"v1","groupVersion":"%s/%s","resources":[]}`, group, version)
			default:
				http.NotFound(w, req)
			}
		}))
		server.Listener = listener
		server.StartTLS()
		t.Cleanup(server.Close)
		testkit.WaitForAPI(t, s.provider, api)
	}
	serve("metrics.k8s.io", "v1beta1", "/apis/metrics.k8s.io/v1beta1/namespaces/"+s.remoteNamespace+"/pods",
		`{"items":[{"metadata":{"name":"a"},"timestamp":"2026-01-01T00:00:00Z","window":"10s","containers":[{"name":"main","usage":{"cpu":"1","memory":"1Ki"}}]}]}`)
	scraped(fmt.Sprintf("container_cpu_usage_seconds_total{container=\"main\",namespace=%q,pod=\"a\"} 10 1767225600000\n", s.local), false)

	stop()
	s.run() // without the pause between two sources
	series := fmt.Sprintf("pod_cpu_usage_seconds_total{namespace=%q,pod=\"a\"} 7 1767225600000\n", s.local)
	serve(names.MetricsGroup, names.MetricsVersion, agentPath(string(s.consumerID), "/metrics/resource"), series)
	scraped(series, false)
}

// BenchmarkMetricsResource serves the resource page of a node with 2000 pods.
func BenchmarkMetricsResource(b *testing.B) {
	var page strings.Builder
	pods := localPods{}
	for _, metric := range []string{"container_cpu_usage_seconds_total", "container_memory_working_set_bytes", "container_start_time_seconds", "pod_cpu_usage_seconds_total", "pod_memory_working_set_bytes"} {
		fmt.Fprintf(&page, "# TYPE %s counter\n", metric)
		for i := range 2000 {
			pod := types.NamespacedName{Namespace: fmt.Sprint("team-", i%7), Name: fmt.Sprint("web-7d4b9c6f5-", i)}
			pods[pod] = "uid"
			fmt.Fprintf(&page, "%s{namespace=%q,pod=%q} 1.2345e+02 1700000000123\n", metric, pod.Namespace, pod.Name)
		}
	}
	m, _ := metricsOf(nil, nil)
	for b.Loop() {
		if err := m.writeResources(strings.NewReader(page.String()), io.Discard, pods); err != nil {
			b.Fatal(err)
		}
	}
}
