// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package multicluster

import (
	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
)

// Metrics of all engines of the process, by kind and peer.
var (
	labelNames = []string{"kind", "peer"}

	itemsTotal = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "liqo_mirror_items_total", Help: "Attempts to bring an item in step on both sides.",
	}, labelNames)
	errorsTotal = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "liqo_mirror_errors_total", Help: "Failed attempts, which are retried.",
	}, labelNames)
	lagSeconds = prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "liqo_mirror_lag_seconds", Help: "Time from a change to when both sides are in step, whatever it waits for meanwhile.",
		Buckets: prometheus.ExponentialBuckets(0.001, 4, 10),
	}, labelNames)
	parkedItems = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "liqo_mirror_parked", Help: "Items that wait until both sides of their pair are known.",
	}, labelNames)
)

func init() { metrics.Registry.MustRegister(itemsTotal, errorsTotal, lagSeconds, parkedItems) }

// kindMetrics are the metrics of one kind of one engine.
type kindMetrics struct {
	labels []string
	items  prometheus.Counter
	errors prometheus.Counter
	lag    prometheus.Observer
	parked prometheus.Gauge
}

func newKindMetrics(kind, peer string) *kindMetrics {
	l := []string{kind, peer}
	return &kindMetrics{
		labels: l,
		items:  itemsTotal.WithLabelValues(l...),
		errors: errorsTotal.WithLabelValues(l...),
		lag:    lagSeconds.WithLabelValues(l...),
		parked: parkedItems.WithLabelValues(l...),
	}
}

// closeMetrics deletes the series of a removed peer.
func (m *kindMetrics) closeMetrics() {
	itemsTotal.DeleteLabelValues(m.labels...)
	errorsTotal.DeleteLabelValues(m.labels...)
	lagSeconds.DeleteLabelValues(m.labels...)
	parkedItems.DeleteLabelValues(m.labels...)
}
