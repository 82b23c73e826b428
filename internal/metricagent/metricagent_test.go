// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package metricagent

import (
	"compress/gzip"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/names"
	"liqo.io/liqo/internal/pki"
	"liqo.io/liqo/internal/testkit"
)

func TestMain(m *testing.M) { testkit.Main(m) }

const limit = 2 * time.Minute

// kubelet stands for those of all nodes.
type kubelet struct {
	*httptest.Server
	broken   atomic.Bool
	requests atomic.Int64
	clients  atomic.Int64 // requests with a client certificate
	pages    map[string]string
}

func newKubelet(t *testing.T, c *testkit.ControlPlane, pages map[string]string) *kubelet {
	t.Helper()
	k := &kubelet{pages: pages}
	k.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		k.requests.Add(1)
		if len(req.TLS.PeerCertificates) > 0 {
			k.clients.Add(1)
		}
		page, ok := k.pages[req.URL.Path]
		switch {
		case k.broken.Load():
			http.Error(w, "broken", http.StatusInternalServerError)
		case !ok:
			http.NotFound(w, req)
		default:
			_, _ = io.WriteString(w, page)
		}
	}))
	k.TLS = &tls.Config{Certificates: []tls.Certificate{c.ServingCertificate(t)}, ClientAuth: tls.RequestClientCert}
	k.StartTLS()
	t.Cleanup(k.Close)
	return k
}

// addNode makes the kubelet that of a ready node.
func (k *kubelet) addNode(t *testing.T, c *testkit.ControlPlane, labels map[string]string) string {
	t.Helper()
	host, port, _ := net.SplitHostPort(k.Listener.Addr().String())
	number, _ := strconv.Atoi(port)
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{GenerateName: "node-", Labels: labels}}
	testkit.Create(t, c.Client, node)
	testkit.UpdateStatus(t, c.Client, node, func(n *corev1.Node) {
		n.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: host}}
		n.Status.DaemonEndpoints.KubeletEndpoint.Port = int32(number)
		n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
	})
	return node.Name
}

// startAgent runs the agent with the rights of its chart, and leads the API server to it.
func startAgent(t *testing.T, c *testkit.ControlPlane) (base string) {
	t.Helper()
	const user = "metric-agent"
	liqo := testkit.Namespace(t, c, "liqo", nil)
	subjects := []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: user}}
	for role, at := range map[string]string{"agent-wide": "", "agent-liqo": "liqo", "agent-system": "kube-system"} {
		testkit.ProcessRole(t, c, role, "metric-agent", at)
		ref, meta := rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role}, metav1.ObjectMeta{Name: role}
		switch at {
		case "":
			testkit.Ensure(t, c, &rbacv1.ClusterRoleBinding{ObjectMeta: meta, RoleRef: ref, Subjects: subjects})
		case "liqo":
			meta.Namespace = liqo
			testkit.Ensure(t, c, &rbacv1.RoleBinding{ObjectMeta: meta, RoleRef: ref, Subjects: subjects})
		default:
			meta.Namespace = at
			testkit.Ensure(t, c, &rbacv1.RoleBinding{ObjectMeta: meta, RoleRef: ref, Subjects: subjects})
		}
	}
	testkit.Create(t, c.Client, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: liqo, Name: names.MetricAgentCertsSecret}})
	api, base := testkit.AggregatedAPI(t, c, names.MetricsGroup, names.MetricsVersion, liqo, names.MetricAgent, false)
	host, text, _ := net.SplitHostPort(base)
	port, _ := strconv.Atoi(text)
	testkit.Manager(t, c.User(t, user), kube.ManagerOptions{Name: names.MetricAgent, Objects: CachedObjects()}, func(mgr ctrl.Manager) error {
		return Setup(mgr, Options{Config: c.User(t, user), LiqoNamespace: liqo, Host: host, Port: port, Log: logr.Discard()})
	})
	testkit.WaitForAPI(t, c, api)
	return base
}

// grant gives a consumer what its Tenant does.
func grant(t *testing.T, c *testkit.ControlPlane, consumer string) {
	t.Helper()
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: names.RoleVirtualKubeletRemoteWide}, Rules: []rbacv1.PolicyRule{
		testkit.Rule(names.MetricsGroup, "scrape/metrics", "get"), testkit.Rule(names.MetricsGroup, "scrape/stats", "get"),
	}}
	testkit.Ensure(t, c, role)
	testkit.Ensure(t, c, &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: names.ClusterRoleBinding(role.Name, consumer)},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role.Name},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.GroupKind, Name: consumer}},
	})
}

// offloaded makes a remote namespace with a pod on the node.
func offloaded(t *testing.T, c *testkit.ControlPlane, name, consumer, original, node string) {
	t.Helper()
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{names.RemoteClusterID: consumer}}}
	if original != "" {
		namespace.Annotations = map[string]string{names.OriginalName: original}
	}
	testkit.Ensure(t, c, namespace)
	testkit.Ensure(t, c, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: name, Name: "default"}})
	testkit.Ensure(t, c, &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: name, Name: "a", Labels: map[string]string{names.ManagedBy: names.ManagedByShadowPod}},
		Spec:       corev1.PodSpec{NodeName: node, Containers: []corev1.Container{{Name: "main", Image: "x"}}},
	})
}

// get asks the API server as a user.
func get(t *testing.T, cfg *rest.Config, path string, header ...string) (int, string) {
	t.Helper()
	asked, err := rest.HTTPClientFor(cfg)
	if err != nil {
		t.Fatal(err)
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, cfg.Host+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(header); i += 2 {
		req.Header.Add(header[i], header[i+1])
	}
	resp, err := asked.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(body)
}

func path(cluster, page string) string { return groupVersion + "/scrape/" + cluster + page }

const typeLine = "# TYPE container_memory_working_set_bytes gauge\n"

func usage(namespace string, value int) string {
	return fmt.Sprintf("container_memory_working_set_bytes{container=\"main\",namespace=%q,pod=\"a\"} %d 1700000000123\n", namespace, value)
}

func TestScrapeIsolation(t *testing.T) {
	c := testkit.Cluster(t)
	id := testkit.UniqueID()
	rome, paris := id, id+"-east" // the name of one contains that of the other
	k := newKubelet(t, c, map[string]string{
		"/metrics/resource": typeLine + usage("kube-system", 1) + usage("web-"+rome, 2) + usage("web-"+paris, 3) + usage("tenant-"+rome, 4) + "node_memory_working_set_bytes 5\n",
		"/stats/summary": `{"node":{"nodeName":"secret"},"pods":[{"podRef":{"name":"a","namespace":"web-` + rome + `","uid":"1"},"cpu":{"usageNanoCores":7}},
			{"podRef":{"name":"a","namespace":"web-` + paris + `","uid":"2"}}]}`,
	})
	node := k.addNode(t, c, nil)
	virtual := newKubelet(t, c, map[string]string{"/metrics/resource": typeLine + usage("web-"+rome, 99)})
	virtualNode := virtual.addNode(t, c, map[string]string{names.NodeType: names.NodeTypeVirtualNode})
	offloaded(t, c, "web-"+rome, rome, "web", node)
	offloaded(t, c, "web-"+paris, paris, "web", node)
	offloaded(t, c, "tenant-"+rome, rome, "", node)
	offloaded(t, c, "loop-"+rome, rome, "loop", virtualNode)
	grant(t, c, rome)
	grant(t, c, paris)
	base := startAgent(t, c)
	slice := func(consumer string) *rest.Config {
		return c.User(t, pki.SliceSubject("pool", consumer).CommonName, consumer)
	}

	testkit.Eventually(t, limit, func() error {
		status, body := get(t, slice(rome), path(rome, "/metrics/resource"))
		if diff := cmp.Diff(typeLine+usage("web", 2), body); status != http.StatusOK || diff != "" {
			return fmt.Errorf("%d: %s", status, diff)
		}
		return nil
	})
	if _, body := get(t, slice(paris), path(paris, "/metrics/resource")); body != typeLine+usage("web", 3) {
		t.Errorf("paris gets %s", body)
	}
	if status, body := get(t, slice(rome), path(rome, "/stats/summary")); strings.TrimSpace(body) != `{"node":{},"pods":[{"cpu":{"usageNanoCores":7},"podRef":{"name":"a","namespace":"web","uid":"1"}}]}` {
		t.Errorf("the summary is %d %s", status, body)
	}
	if status, body := get(t, slice(rome), path(rome, "/metrics/probes")); status != http.StatusOK || body != "" {
		t.Errorf("a page that the kubelet lacks is %d %q", status, body)
	}
	if k.clients.Load() != k.requests.Load() || virtual.requests.Load() > 0 {
		t.Errorf("%d requests of %d with credentials, %d to virtual nodes", k.clients.Load(), k.requests.Load(), virtual.requests.Load())
	}

	for name, tc := range map[string]struct {
		cfg    *rest.Config
		path   string
		header []string
		want   int
	}{
		"foreign cluster in the URL":  {slice(rome), path(paris, "/metrics/resource"), nil, http.StatusForbidden},
		"longer cluster in the URL":   {slice(paris), path(rome, "/metrics/resource"), nil, http.StatusForbidden},
		"foreign group in headers":    {slice(rome), path(paris, "/metrics/resource"), []string{"X-Remote-User", pki.SliceSubject("pool", paris).CommonName, "X-Remote-Group", paris}, http.StatusForbidden},
		"impersonation":               {slice(rome), path(paris, "/metrics/resource"), []string{"Impersonate-User", "x", "Impersonate-Group", paris}, http.StatusForbidden},
		"encoded slash":               {slice(rome), path(rome+"%2f..%2f"+paris, "/metrics/resource"), nil, http.StatusForbidden},
		"group of another's name":     {c.User(t, "pool", rome), path(rome, "/metrics/resource"), nil, http.StatusForbidden},
		"user without the group":      {c.User(t, pki.SliceSubject("pool", rome).CommonName), path(rome, "/metrics/resource"), nil, http.StatusForbidden},
		"administrator":               {c.Config, path(rome, "/metrics/resource"), nil, http.StatusForbidden},
		"other page":                  {slice(rome), path(rome, "/metrics/secrets"), nil, http.StatusNotFound},
		"pods of the kubelet":         {slice(rome), path(rome, "/pods"), nil, http.StatusForbidden},
		"discovery by administrators": {c.Config, groupVersion, nil, http.StatusOK},
	} {
		t.Run(name, func(t *testing.T) {
			status, body := get(t, tc.cfg, tc.path, tc.header...)
			if status != tc.want || strings.Contains(body, "working_set") {
				t.Errorf("%d %s, want %d", status, body, tc.want)
			}
		})
	}

	t.Run("directly", func(t *testing.T) {
		as := []string{"X-Remote-User", pki.SliceSubject("pool", rome).CommonName, "X-Remote-Group", rome}
		for name, cfg := range map[string]*rest.Config{"without_certificate": {}, "with_that_of_a_slice": slice(rome), "of_an_administrator": c.Config} {
			direct := rest.CopyConfig(cfg)
			direct.Host, direct.Insecure, direct.CAData = "https://"+base, true, nil
			if status, body := get(t, direct, path(rome, "/metrics/resource"), as...); status != http.StatusUnauthorized {
				t.Errorf("%s: %d %s", name, status, body)
			}
		}
	})
	t.Run("discovery", func(t *testing.T) {
		clients, err := kubernetes.NewForConfig(c.Config)
		if err != nil {
			t.Fatal(err)
		}
		testkit.Eventually(t, limit, func() error {
			resources, err := clients.Discovery().ServerResourcesForGroupVersion(names.MetricsGroup + "/" + names.MetricsVersion)
			if err == nil && len(resources.APIResources) != 2 {
				err = fmt.Errorf("resources are %v", resources.APIResources)
			}
			return err
		})
	})
}

// testAgent returns an agent without an API server, that sees one tenant with a pod on each of the kubelets.
func testAgent(t *testing.T, interval time.Duration, urls ...string) (*agent, []source) {
	t.Helper()
	var sources []source
	for i, url := range urls {
		sources = append(sources, source{name: fmt.Sprint("node-", i), url: url + "/metrics/resource"})
	}
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	t.Cleanup(client.CloseIdleConnections)
	return &agent{cluster: noObjects{}, pages: newPageCache(client, interval), log: logr.Discard()}, sources
}

// noObjects is a cluster that cannot be read.
type noObjects struct{ client.Reader }

func (noObjects) List(context.Context, client.ObjectList, ...client.ListOption) error {
	return fmt.Errorf("no objects")
}

func scrapeSources(t *testing.T, a *agent, sources []source, header ...string) *httptest.ResponseRecorder {
	t.Helper()
	w, req := httptest.NewRecorder(), httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil)
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	a.writePages(w, req, a.pages, sources, series, map[string]string{"web-rome": "web"})
	return w
}

func serveUsage(t *testing.T, requests *atomic.Int64, broken *atomic.Bool) string {
	t.Helper()
	s := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		requests.Add(1)
		if broken.Load() {
			http.Redirect(w, req, "https://elsewhere.example/", http.StatusFound)
			return
		}
		_, _ = io.WriteString(w, typeLine+usage("web-rome", 1))
	}))
	t.Cleanup(s.Close)
	return s.URL
}

func TestScrapeOncePerInterval(t *testing.T) {
	var requests atomic.Int64
	a, sources := testAgent(t, time.Hour, serveUsage(t, &requests, new(atomic.Bool)))
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() {
			if w := scrapeSources(t, a, sources); w.Body.String() != typeLine+usage("web", 1) {
				t.Errorf("%d %s", w.Code, w.Body)
			}
		})
	}
	all.Wait()
	if n := requests.Load(); n != 1 {
		t.Errorf("%d requests", n)
	}
	packed := scrapeSources(t, a, sources, "Accept-Encoding", "gzip")
	in, err := gzip.NewReader(packed.Body)
	if err != nil {
		t.Fatal(err)
	}
	if text, err := io.ReadAll(in); err != nil || string(text) != typeLine+usage("web", 1) {
		t.Errorf("%q, %v", text, err)
	}
}

func TestScrapeFailingNode(t *testing.T) {
	var requests atomic.Int64
	var broken, fine atomic.Bool
	broken.Store(true)
	a, sources := testAgent(t, time.Millisecond, serveUsage(t, &requests, &broken), serveUsage(t, &requests, &fine))
	if w := scrapeSources(t, a, sources); w.Code != http.StatusOK || w.Body.String() != typeLine+usage("web", 1) {
		t.Errorf("one of two: %d %s", w.Code, w.Body)
	}
	if w := scrapeSources(t, a, sources[:1]); w.Code != http.StatusServiceUnavailable || strings.Contains(w.Body.String(), "127.0.0.1") || strings.Contains(w.Body.String(), "node-0") {
		t.Errorf("all of one: %d %s", w.Code, w.Body)
	}
	broken.Store(false)
	testkit.Eventually(t, limit, func() error {
		if w := scrapeSources(t, a, sources[:1]); w.Code != http.StatusOK {
			return fmt.Errorf("%d %s", w.Code, w.Body)
		}
		return nil
	})
	if w := scrapeSources(t, a, nil); w.Code != http.StatusOK || w.Body.Len() > 0 {
		t.Errorf("no nodes: %d %s", w.Code, w.Body)
	}
	broken.Store(true)
	testkit.Eventually(t, limit, func() error {
		if w := scrapeSources(t, a, sources[:1]); w.Code != http.StatusServiceUnavailable {
			return fmt.Errorf("%d %s", w.Code, w.Body)
		}
		return nil
	})
}

// A tenant that asks without pause does not take the time of the others.
func TestScrapeLimitPerTenant(t *testing.T) {
	a, _ := testAgent(t, time.Hour)
	var leave []func()
	for range maxAnswers {
		end, err := a.enterTenant(t.Context(), "rome")
		if err != nil {
			t.Fatal(err)
		}
		leave = append(leave, end)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := a.enterTenant(ended, "rome"); err == nil {
		t.Error("one more request is answered")
	}
	if _, err := a.enterTenant(t.Context(), "oslo"); err != nil {
		t.Errorf("another tenant waits: %v", err)
	}
	leave[0]()
	if _, err := a.enterTenant(t.Context(), "rome"); err != nil {
		t.Error(err)
	}
}

func TestPageTooLarge(t *testing.T) {
	s := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		lines := []byte(strings.Repeat(usage("other", 1), 1000))
		for n := 0; n <= maxPage; n += len(lines) {
			if _, err := w.Write(lines); err != nil {
				return
			}
		}
	}))
	defer s.Close()
	a, sources := testAgent(t, time.Hour, s.URL)
	if _, err := a.pages.downloadPage(t.Context(), sources[0], func(in io.Reader) (any, error) { return readSeries(in, func(string) bool { return false }) }); !errors.Is(err, errTooLarge) {
		t.Error(err)
	}
}

func TestAccelerators(t *testing.T) {
	c := testkit.Cluster(t)
	id := testkit.UniqueID()
	const device = "# TYPE DCGM_FI_DEV_GPU_UTIL gauge\n"
	line := func(namespace, pod string) string {
		return fmt.Sprintf("DCGM_FI_DEV_GPU_UTIL{gpu=\"0\",Hostname=\"n\",container=\"main\",namespace=%q,pod=%q} 42\n", namespace, pod)
	}
	var tokens atomic.Int64
	exporter := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if req.Header.Get("Authorization") != "" {
			tokens.Add(1)
		}
		_, _ = io.WriteString(w, device+line("gpu-"+id, "a")+line("other", "b")+line("", ""))
	}))
	defer exporter.Close()
	host, text, _ := net.SplitHostPort(exporter.Listener.Addr().String())
	port, _ := strconv.Atoi(text)
	offloaded(t, c, "gpu-"+id, id, "gpu", "gpu-node-"+id)
	namespace := testkit.Namespace(t, c, "exporters", nil)
	testkit.Ensure(t, c, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "default"}})
	addExporter := func(name, node string, ready corev1.ConditionStatus, labels map[string]string) {
		pod := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: map[string]string{"app": id}},
			Spec:       corev1.PodSpec{NodeName: node, Containers: []corev1.Container{{Name: "main", Image: "x"}}},
		}
		maps.Copy(pod.Labels, labels)
		testkit.Create(t, c.Client, pod)
		testkit.UpdateStatus(t, c.Client, pod, func(p *corev1.Pod) {
			p.Status.PodIP, p.Status.PodIPs = host, []corev1.PodIP{{IP: host}}
			p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: ready}}
		})
	}
	addExporter("not-ready", "gpu-node-"+id, corev1.ConditionFalse, nil)
	addExporter("elsewhere", "other-node", corev1.ConditionTrue, nil)
	addExporter("of-a-consumer", "gpu-node-"+id, corev1.ConditionTrue, map[string]string{names.ManagedBy: names.ManagedByShadowPod})
	var e *exporters
	testkit.Manager(t, c.Config, kube.ManagerOptions{Name: "test"}, func(mgr ctrl.Manager) (err error) {
		e, err = newExporters(mgr, Accelerators{PodSelector: "app=" + id, Port: port, Path: "/metrics"})
		return err
	})
	find := func(want int) {
		t.Helper()
		testkit.Eventually(t, limit, func() error {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			sources, err := e.findSources(ctx, map[string]bool{"gpu-node-" + id: true})
			if err == nil && len(sources) != want {
				err = fmt.Errorf("sources are %v", sources)
			}
			return err
		})
	}
	find(0)
	addExporter("ready", "gpu-node-"+id, corev1.ConditionTrue, nil)
	find(1)

	a := &agent{cluster: c.Client, pages: newPageCache(http.DefaultClient, time.Hour), accelerators: e, log: logr.Discard()}
	ask := func(consumer string) *httptest.ResponseRecorder {
		req := httptest.NewRequestWithContext(t.Context(), http.MethodGet, path(consumer, "/metrics/accelerators"), nil)
		who := &user.DefaultInfo{Name: pki.SliceSubject("pool", id).CommonName, Groups: []string{id}}
		w := httptest.NewRecorder()
		a.newHandler().ServeHTTP(w, req.WithContext(context.WithValue(req.Context(), userKey{}, user.Info(who))))
		return w
	}
	if w := ask(id); w.Body.String() != device+line("gpu", "a") || tokens.Load() > 0 {
		t.Errorf("%d %s, %d requests with a token", w.Code, w.Body, tokens.Load())
	}
	if w := ask("other"); w.Code != http.StatusForbidden {
		t.Errorf("another cluster: %d %s", w.Code, w.Body)
	}
	for name, o := range map[string]Accelerators{"selector": {PodSelector: "a in (", Port: 1, Path: "/"}, "port": {PodSelector: "a", Path: "/"}, "path": {PodSelector: "a", Port: 1, Path: "x"}} {
		if _, err := newExporters(nil, o); err == nil {
			t.Errorf("invalid %s: no error", name)
		}
	}
}

// BenchmarkTenant answers one tenant with 2000 pods on 20 nodes, beside as many pods of another, from pages that are fetched already.
func BenchmarkTenant(b *testing.B) {
	for name, series := range map[string]int{"resource": 5, "cadvisor": 70} {
		b.Run(name, func(b *testing.B) {
			var pages []any
			for node := range 20 {
				var text strings.Builder
				for metric := range series {
					fmt.Fprintf(&text, "# HELP container_metric_%d Some text about it\n# TYPE container_metric_%d counter\n", metric, metric)
					for pod := range 200 {
						fmt.Fprintf(&text, "container_metric_%d{container=\"main\",namespace=\"team-%d-%s\",pod=\"web-7d4b9c6f5-%d-%d\"} 1.2345e+02 1700000000123\n", metric, pod%7, []string{"rome", "oslo"}[pod%2], node, pod)
					}
				}
				page, err := readSeries(strings.NewReader(text.String()), func(string) bool { return true })
				if err != nil {
					b.Fatal(err)
				}
				pages = append(pages, page)
			}
			namespaces := map[string]string{}
			for team := range 7 {
				namespaces[fmt.Sprintf("team-%d-rome", team)] = fmt.Sprintf("team-%d", team)
			}
			for packed, write := range map[string]func() error{
				"plain": func() error { return writeSeries(io.Discard, pages, namespaces) },
				"gzip": func() error {
					out, _ := gzip.NewWriterLevel(io.Discard, gzip.BestSpeed)
					return errors.Join(writeSeries(out, pages, namespaces), out.Close())
				},
			} {
				b.Run(packed, func(b *testing.B) {
					for b.Loop() {
						if err := write(); err != nil {
							b.Fatal(err)
						}
					}
				})
			}
		})
	}
}
