// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"liqo.io/liqo/internal/agent"
	"liqo.io/liqo/internal/names"
)

// driver is the value of the label that the original has for the tunnel technology.
const driver = "wireguard"

// refusedByWireGuard is the drop reason of packets that never reach the filter.
const refusedByWireGuard = "wireguard_refused"

// latencyBuckets are the buckets of the original, in microseconds.
var latencyBuckets = []float64{
	10000, 15000, 20000, 36250, 52500, 68750, 85000, 101250, 117500, 133750, 150000, 178380, 212129, 252264, 299992,
}

// tunnelExporter exports the metrics of the tunnel under the names of the original. tunnelExporter collects at scrape time, independent of the loop,
// so the values are current even while the API server is down.
type tunnelExporter struct {
	device    Device
	counted   func() (map[string]uint64, error)
	now       func() agent.PathHealth
	mtu       func() int
	unwatched bool
	latencies prometheus.Histogram

	connected, latency, received, sent, asked, heard, loss, size, dropped, implementation *prometheus.Desc
}

func newExporter(o Options, device Device, counted func() (map[string]uint64, error), now func() agent.PathHealth, mtu func() int) *tunnelExporter {
	labels := prometheus.Labels{"driver": driver, "cluster_id": o.RemoteClusterID}
	desc := func(name, help string, more ...string) *prometheus.Desc {
		return prometheus.NewDesc(name, help, more, labels)
	}
	return &tunnelExporter{
		device: device, counted: counted, now: now, mtu: mtu, unwatched: o.Unwatched,
		connected: desc("liqo_peer_is_connected", "1 while packets of all sizes pass to the peer and back, else 0."),
		latency:   desc("liqo_peer_latency_us", "Latest round trip to the gateway of the peer, in microseconds; absent without a connection."),
		received:  desc(names.ReceivedBytesMetric, "Bytes that came from the peer, encrypted."),
		sent:      desc(names.SentBytesMetric, "Bytes that went to the peer, encrypted."),
		asked:     desc("liqo_peer_probes_total", "Probes that were sent to the peer, small ones and full packets.", "size"),
		heard:     desc("liqo_peer_probe_answers_total", "Probes that the peer answered.", "size"),
		loss:      desc(names.ProbeLossMetric, "Part of the last 60 probes that was lost, from 0 to 1.", "size"),
		size:      desc("liqo_peer_mtu_bytes", "Largest packets that are sent to the peer, in bytes."),
		dropped: prometheus.NewDesc("liqo_gateway_dropped_packets_total", "Packets that the gateway dropped because its rules refuse them.",
			[]string{"reason"}, prometheus.Labels{"cluster_id": o.RemoteClusterID}),
		implementation: prometheus.NewDesc("liqo_wireguard_implementation", "1 for the implementation of WireGuard: kernel or userspace.",
			[]string{"implementation"}, prometheus.Labels{"driver": driver}),
		latencies: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "liqo_peer_latency_histogram_us", Help: "Round trips to the gateway of the peer, in microseconds.",
			Buckets: latencyBuckets, ConstLabels: labels,
		}),
	}
}

// observeLatency notes a round trip.
func (e *tunnelExporter) observeLatency(after time.Duration) {
	e.latencies.Observe(float64(after.Microseconds()))
}

// Describe is of prometheus.Collector.
func (e *tunnelExporter) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{e.connected, e.latency, e.received, e.sent, e.asked, e.heard, e.loss, e.size, e.dropped, e.implementation} {
		out <- d
	}
	e.latencies.Describe(out)
}

// Collect implements prometheus.Collector. If the device cannot be read, the byte counters are left out; if the kernel cannot be
// read, the drop counters are. All other metrics are always present.
func (e *tunnelExporter) Collect(out chan<- prometheus.Metric) {
	gauge := func(d *prometheus.Desc, value float64, labels ...string) {
		out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, value, labels...)
	}
	count := func(d *prometheus.Desc, value uint64, labels ...string) {
		out <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(value), labels...)
	}
	status, err := e.device.Observe()
	if err == nil {
		var received, sent uint64
		for _, p := range status.Peers {
			received, sent = received+p.Received, sent+p.Sent
		}
		count(e.received, received)
		count(e.sent, sent)
		count(e.dropped, status.Refused, refusedByWireGuard)
	}
	health := e.now()
	for size, a := range map[string]agent.Answers{"small": health.Small, "full": health.Full} {
		count(e.asked, a.Sent, size)
		count(e.heard, a.Heard, size)
		if ratio, known := a.LossRatio(); known && (size == "small" || health.Pads) {
			gauge(e.loss, ratio, size)
		}
	}
	if dropped, err := e.counted(); err == nil {
		for reason, packets := range dropped {
			count(e.dropped, packets, reason)
		}
	}
	switch {
	case health.Up(time.Now()):
		gauge(e.latency, float64(health.Small.Latency.Microseconds()))
		gauge(e.connected, 1)
	case e.unwatched && len(status.Peers) > 0:
		gauge(e.connected, 1)
	default:
		gauge(e.connected, 0)
	}
	gauge(e.size, float64(e.mtu()))
	gauge(e.implementation, 1, string(e.device.Implementation()))
	e.latencies.Collect(out)
}
