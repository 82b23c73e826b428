// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package virtualkubelet

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"liqo.io/liqo/internal/exposition"
	"liqo.io/liqo/internal/names"
)

// podMetrics serves the metrics of the pods of this node, as measured by the kubelets of the provider. The figures of the node are the
// sums of its pods, not the provider's figures.
type podMetrics struct {
	// open requests a page of the metric agent of the provider.
	open func(ctx context.Context, path string) (io.ReadCloser, error)
	// resources has the usages that the provider knows without the agent.
	resources resourceMetrics
	// list returns the UIDs of the pods of this node that are in the provider.
	list func(ctx context.Context) (localPods, error)
	// missing is why the provider has no metrics, or nil. changed is called when missing changes.
	missing atomic.Pointer[errNoMetrics]
	changed func()
	node    string
	started time.Time
	now     func() time.Time
	sums    usageSums
	source  usageSource
	log     logr.Logger
}

// errNoMetrics reports that the provider has no metrics, and why.
type errNoMetrics struct{ reason, message string }

// Reasons of the condition of the Node.
const (
	reasonNoAgent    = "NoMetricAgent"
	reasonAgentFails = "MetricAgentFails"
)

func (e *errNoMetrics) Error() string { return e.message }

func (m *podMetrics) addHandlers(mux *http.ServeMux) {
	for _, path := range []string{"/metrics", "/metrics/cadvisor", "/metrics/probes", "/metrics/accelerators"} {
		mux.HandleFunc("GET "+path, m.servePage(path, exposition.ContentType, m.writeSeries))
	}
	mux.HandleFunc("GET /metrics/resource", m.servePage("/metrics/resource", exposition.ContentType, m.writeResources))
	mux.HandleFunc("GET /stats/summary", m.servePage("/stats/summary", "application/json", m.writeSummary))
}

// localPods are the UIDs of the pods of this node.
type localPods map[types.NamespacedName]types.UID

// servePage answers with what write makes of a page of the provider. A provider without metrics has an empty page, and the Node a condition: an error
// would be logged at each scrape.
func (m *podMetrics) servePage(path, contentType string, write func(in io.Reader, out io.Writer, pods localPods) error) http.HandlerFunc {
	return func(w http.ResponseWriter, req *http.Request) {
		pods, err := m.list(req.Context())
		if err != nil {
			writeText(w, http.StatusInternalServerError, err.Error())
			return
		}
		in, err := m.openPage(req.Context(), path, pods)
		if _, ok := errors.AsType[*errNoMetrics](err); ok {
			w.Header().Set("Content-Type", contentType)
			return
		}
		if err != nil {
			writeText(w, http.StatusBadGateway, "the metrics of the provider cannot be read: "+err.Error())
			return
		}
		defer in.Close()
		w.Header().Set("Content-Type", contentType)
		sent := &countingWriter{to: w}
		out := bufio.NewWriterSize(sent, 64<<10)
		err = write(in, out, pods)
		if err == nil {
			err = out.Flush()
		}
		switch {
		case err == nil:
		case sent.bytes == 0:
			writeText(w, http.StatusBadGateway, "the metrics of the provider cannot be read: "+err.Error())
		default:
			m.log.Info("metrics of the provider ended early", "path", path, "reason", err.Error())
			panic(http.ErrAbortHandler) // partial metrics must not pass for the whole
		}
	}
}

// openPage opens a page of the agent. Without one, metrics-server of the provider knows the usages at least.
func (m *podMetrics) openPage(ctx context.Context, path string, pods localPods) (io.ReadCloser, error) {
	in, err := m.open(ctx, path)
	none, missing := errors.AsType[*errNoMetrics](err)
	hasUsage := path == "/metrics/resource" || path == "/stats/summary"
	switch {
	case err == nil:
		m.setMissing(nil)
		if hasUsage && m.switchSource(sourceAgent) {
			return nil, errors.Join(errSwitching, in.Close())
		}
		return in, nil
	case !missing || !hasUsage:
		return nil, err
	case none.reason == reasonAgentFails && m.source.isCurrent(sourceAgent):
		m.setMissing(none) // it is away, and will be back
		return nil, none
	}
	page, err := m.resources.readPage(ctx, path, pods)
	if apierrors.IsNotFound(err) || apierrors.IsForbidden(err) || apierrors.IsServiceUnavailable(err) {
		m.setMissing(none)
		return nil, none
	}
	if err != nil {
		return nil, err
	}
	m.setMissing(nil)
	if m.switchSource(sourceMetricsServer) {
		return nil, errSwitching
	}
	return io.NopCloser(page), nil
}

// switchSource reports whether the source of the usage has changed a moment ago.
func (m *podMetrics) switchSource(to int) bool {
	changed, wait := m.source.setCurrent(to, m.now())
	if changed {
		m.sums.resetUsage()
	}
	return wait
}

// usageSource is the source of the usage of pods. The counters of one source do not continue the counters of the other: clients of both would
// take the difference for usage, and an autoscaler would act on it. Therefore there is a pause between sources.
type usageSource struct {
	mu      sync.Mutex
	current int
	until   time.Time
}

const (
	sourceAgent = iota + 1
	sourceMetricsServer
)

// switchPause is longer than the time between two scrapes of metrics-server, a minute by default: after a missing figure metrics-server forgets
// the previous figure.
const switchPause = 90 * time.Second

// errSwitching is answered by an empty page.
var errSwitching = &errNoMetrics{reason: "Switching", message: "the source of the metrics has changed"}

func (u *usageSource) isCurrent(source int) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.current == source
}

// setCurrent sets the source, and reports whether the source changed and whether the pause lasts. No pause precedes the first source.
func (u *usageSource) setCurrent(source int, now time.Time) (changed, wait bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.current != source {
		changed = u.current != 0
		if u.current = source; changed {
			u.until = now.Add(switchPause)
		}
	}
	return changed, now.Before(u.until)
}

// countingWriter counts the bytes that were written.
type countingWriter struct {
	to    io.Writer
	bytes int64
}

func (c *countingWriter) Write(data []byte) (int, error) {
	n, err := c.to.Write(data)
	c.bytes += int64(n)
	return n, err
}

// setMissing records why the provider has no metrics, nil if it has.
func (m *podMetrics) setMissing(why *errNoMetrics) {
	before := m.missing.Swap(why)
	if (before == nil) != (why == nil) || why != nil && before.reason != why.reason {
		m.changed()
	}
}

// podOf returns the pod that a series is of.
func podOf(s *exposition.Sample) types.NamespacedName {
	return types.NamespacedName{Namespace: s.Label(exposition.NamespaceLabel), Name: s.Label(exposition.PodLabel)}
}

// writeSeries writes the series of the pods of this node, and series without a pod (mostly of volumes) of namespaces with a pod.
func (m *podMetrics) writeSeries(in io.Reader, out io.Writer, pods localPods) error {
	namespaces := map[string]bool{}
	for pod := range pods {
		namespaces[pod.Namespace] = true
	}
	return copySeries(in, out, func(s *exposition.Sample) (types.UID, bool) {
		pod := podOf(s)
		if pod.Name == "" {
			return "", namespaces[pod.Namespace]
		}
		uid, ours := pods[pod]
		return uid, ours
	})
}

// copySeries copies the series selected by keep, and replaces the UID of the remote pod by the UID of the local pod.
func copySeries(in io.Reader, out io.Writer, keep func(*exposition.Sample) (types.UID, bool)) error {
	reader := exposition.NewReader(in)
	var family, line []byte
	for {
		sample, err := reader.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		uid, ok := keep(sample)
		if !ok {
			continue
		}
		line = line[:0]
		if string(family) != string(reader.Family()) {
			family = append(family[:0], reader.Family()...)
			line = append(line, reader.Header()...)
		}
		if uid == "" {
			line = append(line, sample.Line()...)
		} else {
			line = sample.AppendWith(line, "pod_uid", string(uid))
		}
		if _, err := out.Write(append(line, '\n')); err != nil {
			return err
		}
	}
}

// resourceTrailer has the figures of the node, as kubelets write them.
const resourceTrailer = `# HELP node_cpu_usage_seconds_total [STABLE] Cumulative cpu time consumed by the node in core-seconds
# TYPE node_cpu_usage_seconds_total counter
node_cpu_usage_seconds_total %v %[3]d
# HELP node_memory_working_set_bytes [STABLE] Current working set of the node in bytes
# TYPE node_memory_working_set_bytes gauge
node_memory_working_set_bytes %[2]v %[3]d
# HELP resource_scrape_error [STABLE] 1 if there was an error while getting container metrics, 0 otherwise
# TYPE resource_scrape_error gauge
resource_scrape_error 0
# HELP scrape_error [ALPHA] 1 if there was an error while getting container metrics, 0 otherwise
# TYPE scrape_error gauge
scrape_error 0
`

// writeResources writes the resource page: the usage of the pods of this node, and the sums as that of the node.
func (m *podMetrics) writeResources(in io.Reader, out io.Writer, pods localPods) error {
	now, usage := m.now(), map[types.NamespacedName]podUsage{}
	err := copySeries(in, out, func(s *exposition.Sample) (types.UID, bool) {
		pod := podOf(s)
		uid, ours := pods[pod]
		if !ours {
			return "", false
		}
		value, err := s.Value()
		if err != nil {
			return "", false
		}
		u := usage[pod]
		switch string(s.Name()) {
		case "pod_cpu_usage_seconds_total":
			u.cpu, u.at = value, s.Time(now)
		case "pod_memory_working_set_bytes":
			u.memory = value
		}
		usage[pod] = u
		return uid, true
	})
	if err != nil {
		return err
	}
	total := m.sums.addUsage(usage, pods, now)
	_, err = fmt.Fprintf(out, resourceTrailer, total.cpu, total.memory, total.at.UnixMilli())
	return err
}

// agentPath is the path of a page of the metric agent.
func agentPath(cluster, path string) string {
	return "/apis/" + names.MetricsGroup + "/" + names.MetricsVersion + "/scrape/" + cluster + path
}
