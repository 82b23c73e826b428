// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package metricagent

import (
	"cmp"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/internal/exposition"
	"liqo.io/liqo/internal/names"
)

// agent answers the requests of consumers.
type agent struct {
	cluster client.Reader
	pages   *pageCache
	// accelerators are nil if none are configured.
	accelerators *exporters
	log          logr.Logger
	// failing holds the sources whose last read failed.
	failing sync.Map
	// answering holds a channel for each tenant. The channel is full at the maximum of concurrent answers to one tenant.
	answering sync.Map
}

const groupVersion = "/apis/" + names.MetricsGroup + "/" + names.MetricsVersion

// pageKind has the functions to read and join the pages of one path.
type pageKind struct {
	contentType string
	read        func(io.Reader, func(namespace string) bool) (any, error)
	// write writes the parts of several pages for the namespaces in the keys, under the names in the values.
	write func(out io.Writer, pages []any, namespaces map[string]string) error
}

var (
	series  = pageKind{exposition.ContentType, readSeries, writeSeries}
	summary = pageKind{"application/json", readSummary, writeSummary}
)

func readSeries(in io.Reader, keep func(string) bool) (any, error) {
	return exposition.ReadPage(in, keep)
}

func writeSeries(out io.Writer, pages []any, namespaces map[string]string) error {
	all := make([]*exposition.Page, 0, len(pages))
	for _, page := range pages {
		all = append(all, page.(*exposition.Page))
	}
	return exposition.WritePages(out, all, namespaces)
}

func (a *agent) newHandler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+groupVersion, serveJSON(&metav1.APIResourceList{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "APIResourceList"}, GroupVersion: names.MetricsGroup + "/" + names.MetricsVersion,
		APIResources: []metav1.APIResource{
			{Name: "scrape/metrics", Kind: "Scrape", Verbs: metav1.Verbs{"get"}},
			{Name: "scrape/stats", Kind: "Scrape", Verbs: metav1.Verbs{"get"}},
		},
	}))
	// The aggregator requests these pages. It takes the resources from above, and describes none of them.
	mux.HandleFunc("GET /openapi/v2", serveJSON(map[string]any{
		"swagger": "2.0", "info": map[string]string{"title": names.MetricAgent, "version": names.MetricsVersion}, "paths": map[string]any{},
	}))
	mux.HandleFunc("GET /openapi/v3", serveJSON(map[string]any{"paths": map[string]any{}}))
	for path, kind := range map[string]pageKind{
		"/metrics": series, "/metrics/resource": series, "/metrics/cadvisor": series, "/metrics/probes": series, "/stats/summary": summary,
	} {
		mux.HandleFunc("GET "+groupVersion+"/scrape/{cluster}"+path, a.ofTenant(a.pages, kind, func(ctx context.Context, nodes map[string]bool) ([]source, error) {
			return a.findKubelets(ctx, nodes, path)
		}))
	}
	if e := a.accelerators; e != nil {
		mux.HandleFunc("GET "+groupVersion+"/scrape/{cluster}/metrics/accelerators", a.ofTenant(e.pages, series, e.findSources))
	}
	return mux
}

func serveJSON(content any) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(content)
	}
}

// ofTenant returns the handler for the consumer in the path. The answer is the consumer's part of the pages from find. The argument of find are the
// nodes with pods of the consumer. A failing page is left out, unless all fail.
func (a *agent) ofTenant(pages *pageCache, kind pageKind, find func(ctx context.Context, nodes map[string]bool) ([]source, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, req *http.Request) {
		tenant, who := req.PathValue("cluster"), userOf(req)
		if who == nil || !isTenant(who, tenant) {
			http.Error(w, "only virtual kubelets of a cluster get its metrics", http.StatusForbidden)
			return
		}
		leave, err := a.enterTenant(req.Context(), tenant)
		if err != nil {
			return // the client left
		}
		defer leave()
		namespaces, err := a.listNamespaces(req.Context(), tenant)
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		nodes, err := a.findNodes(req.Context(), namespaces)
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		sources, err := find(req.Context(), nodes)
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		a.writePages(w, req, pages, sources, kind, namespaces)
	}
}

// maxAnswers is the number of concurrent answers to one tenant: a tenant that requests without pause leaves time for other tenants.
const maxAnswers = 2

// enterTenant waits until fewer than maxAnswers requests of the tenant are answered. leave lets the next request in.
func (a *agent) enterTenant(ctx context.Context, tenant string) (leave func(), err error) {
	room, _ := a.answering.LoadOrStore(tenant, make(chan struct{}, maxAnswers))
	slots := room.(chan struct{})
	select {
	case slots <- struct{}{}:
		return func() { <-slots }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// writePages gathers pages and answers with the parts of the tenant.
func (a *agent) writePages(w http.ResponseWriter, req *http.Request, cache *pageCache, sources []source, kind pageKind, namespaces map[string]string) {
	pages, err := a.gatherPages(req.Context(), cache, sources, kind)
	if err != nil {
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	w.Header().Set("Content-Type", kind.contentType)
	out := io.Writer(w)
	if strings.Contains(req.Header.Get("Accept-Encoding"), "gzip") {
		w.Header().Set("Content-Encoding", "gzip")
		packed, _ := gzip.NewWriterLevel(w, gzip.BestSpeed)
		defer packed.Close()
		out = packed
	}
	if err := kind.write(out, pages, namespaces); err != nil {
		a.log.V(1).Info("client left", "reason", err.Error())
		panic(http.ErrAbortHandler) // a partial answer must not pass for the whole
	}
}

// listNamespaces returns the remote namespaces of a consumer with their original names. Other namespaces of the consumer, such as the tenant
// namespace, have no original name.
func (a *agent) listNamespaces(ctx context.Context, tenant string) (map[string]string, error) {
	var list corev1.NamespaceList
	if err := a.cluster.List(ctx, &list, client.MatchingLabels{names.RemoteClusterID: tenant}, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("listing the namespaces of the cluster: %w", err)
	}
	out := map[string]string{}
	for _, namespace := range list.Items {
		if original := namespace.Annotations[names.OriginalName]; original != "" {
			out[namespace.Name] = original
		}
	}
	return out, nil
}

// findNodes returns the names of the nodes with pods in the namespaces.
func (a *agent) findNodes(ctx context.Context, namespaces map[string]string) (map[string]bool, error) {
	used := map[string]bool{}
	for namespace := range namespaces {
		var pods corev1.PodList
		if err := a.cluster.List(ctx, &pods, client.InNamespace(namespace), client.UnsafeDisableDeepCopy); err != nil {
			return nil, fmt.Errorf("listing the pods of the cluster: %w", err)
		}
		for i := range pods.Items {
			used[pods.Items[i].Spec.NodeName] = true
		}
	}
	return used, nil
}

// findKubelets returns a page of each ready node of the given nodes.
func (a *agent) findKubelets(ctx context.Context, used map[string]bool, path string) ([]source, error) {
	var nodes corev1.NodeList
	if err := a.cluster.List(ctx, &nodes, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("listing nodes: %w", err)
	}
	var out []source
	for i := range nodes.Items {
		node := &nodes.Items[i]
		if address := kubeletAddress(node); used[node.Name] && address != "" {
			out = append(out, source{name: node.Name, url: "https://" + address + path})
		}
	}
	slices.SortFunc(out, func(x, y source) int { return cmp.Compare(x.name, y.name) })
	return out, nil
}

// kubeletAddress returns the host and port of the kubelet of a ready node, "" if it is not ready.
func kubeletAddress(node *corev1.Node) string {
	ready := slices.ContainsFunc(node.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
	})
	i := slices.IndexFunc(node.Status.Addresses, func(addr corev1.NodeAddress) bool { return addr.Type == corev1.NodeInternalIP })
	if !ready || i < 0 {
		return ""
	}
	port := cmp.Or(int(node.Status.DaemonEndpoints.KubeletEndpoint.Port), names.KubeletPort)
	return net.JoinHostPort(node.Status.Addresses[i].Address, strconv.Itoa(port))
}

// gatherPages reads all sources at once, and fails if all of them fail.
func (a *agent) gatherPages(ctx context.Context, cache *pageCache, sources []source, kind pageKind) ([]any, error) {
	results, failures := make([]any, len(sources)), make([]error, len(sources))
	keep := sync.OnceValue(a.keepNamespace)
	var all sync.WaitGroup
	for i, from := range sources {
		all.Go(func() {
			results[i], failures[i] = cache.getPage(ctx, from, func(in io.Reader) (any, error) { return kind.read(in, keep()) })
			a.logChange(from, failures[i])
		})
	}
	all.Wait()
	pages := slices.DeleteFunc(results, func(page any) bool { return page == nil })
	if len(pages) == 0 && errors.Join(failures...) != nil {
		return nil, errNoPages
	}
	return pages, nil
}

// errNoPages is the message for consumers: names and addresses of nodes are not for them.
var errNoPages = errors.New("no kubelet of the cluster lets its metrics be read; the log of " + names.MetricAgent + " says why")

// keepNamespace returns a function that selects the remote namespaces of all consumers.
func (a *agent) keepNamespace() func(string) bool {
	var list corev1.NamespaceList
	if err := a.cluster.List(context.Background(), &list, client.UnsafeDisableDeepCopy); err != nil {
		return func(string) bool { return true } // they are selected when written, anyway
	}
	keep := make(map[string]bool, len(list.Items))
	for i := range list.Items {
		keep[list.Items[i].Name] = true
	}
	return func(namespace string) bool { return keep[namespace] }
}

// logChange logs that a source fails, or works again.
func (a *agent) logChange(from source, err error) {
	if errors.Is(err, context.Canceled) {
		return
	}
	_, failing := a.failing.Load(from)
	switch {
	case err != nil && !failing:
		a.failing.Store(from, nil)
		a.log.Info("metrics cannot be read", "source", from.name, "url", from.url, "reason", err.Error())
	case err == nil && failing:
		a.failing.Delete(from)
		a.log.Info("metrics can be read again", "source", from.name, "url", from.url)
	}
}
