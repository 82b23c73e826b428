// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"liqo.io/liqo/internal/agent"
)

// nodeExporter exports the health of the probed paths to peers, and the drop counters of the node. nodeExporter collects at scrape time, so the
// values are current even while the API server is down.
type nodeExporter struct {
	now     func() []pathState
	counted func() (map[string]uint64, error)

	connected, latency, asked, heard, dropped *prometheus.Desc
}

func newExporter(node string, now func() []pathState, counted func() (map[string]uint64, error)) *nodeExporter {
	desc := func(name, help string, more ...string) *prometheus.Desc {
		return prometheus.NewDesc(name, help, append([]string{"cluster_id"}, more...), prometheus.Labels{"node": node})
	}
	return &nodeExporter{
		now: now, counted: counted,
		connected: desc("liqo_node_peer_is_connected", "1 while packets of all sizes pass from the node to the peer and back, else 0."),
		latency:   desc("liqo_node_peer_latency_us", "Latest round trip from the node to the gateway of the peer, in microseconds; absent without a connection."),
		asked:     desc("liqo_node_peer_probes_total", "Probes that the node sent to the peer, small ones and full packets.", "size"),
		heard:     desc("liqo_node_peer_probe_answers_total", "Probes of the node that the peer answered.", "size"),
		dropped: prometheus.NewDesc("liqo_node_dropped_packets_total", "Packets that the filter of the node dropped.",
			[]string{"reason"}, prometheus.Labels{"node": node}),
	}
}

// Describe is of prometheus.Collector.
func (e *nodeExporter) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{e.connected, e.latency, e.asked, e.heard, e.dropped} {
		out <- d
	}
}

// Collect implements prometheus.Collector. If the kernel cannot be read, the drop counters are left out.
func (e *nodeExporter) Collect(out chan<- prometheus.Metric) {
	if dropped, err := e.counted(); err == nil {
		for reason, packets := range dropped {
			out <- prometheus.MustNewConstMetric(e.dropped, prometheus.CounterValue, float64(packets), reason)
		}
	}
	for _, w := range e.now() {
		if w.pulse.Began.IsZero() {
			continue
		}
		gauge := func(d *prometheus.Desc, value float64) {
			out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, value, w.Peer)
		}
		for size, a := range map[string]agent.Answers{"small": w.pulse.Small, "full": w.pulse.Full} {
			out <- prometheus.MustNewConstMetric(e.asked, prometheus.CounterValue, float64(a.Sent), w.Peer, size)
			out <- prometheus.MustNewConstMetric(e.heard, prometheus.CounterValue, float64(a.Heard), w.Peer, size)
		}
		if !w.pulse.Up(time.Now()) {
			gauge(e.connected, 0)
			continue
		}
		gauge(e.connected, 1)
		gauge(e.latency, float64(w.pulse.Small.Latency.Microseconds()))
	}
}
