// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package multicluster

import (
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"liqo.io/liqo/internal/kube"
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

var misbehaves = prometheus.NewCounterVec(prometheus.CounterOpts{
	Name: "liqo_peer_misbehaves_total",
	Help: "How often a peer exceeded a limit on data read from it, or written because of it.",
}, []string{"peer", "reason"})

func init() { metrics.Registry.MustRegister(misbehaves) }

// ReasonTooManyStatuses is the reason of a peer that changes a status all the time.
const ReasonTooManyStatuses = "TooManyStatuses"

// misbehaviourPeriod is how long a misbehaviour of a peer stays reported.
const misbehaviourPeriod = 10 * time.Minute

// Misbehaviours records the limits recently reached by a peer. Its methods are safe for concurrent use, also on nil.
type Misbehaviours struct {
	// Peer is the cluster ID, for metrics.
	Peer string
	// Changed is called when a peer starts to misbehave, or for another reason than before. May be nil.
	Changed func()

	mu              sync.Mutex
	reason, message string
	at              time.Time
}

// NewMisbehaviours returns the record of a peer. The series begin at 0: an increase counts from the first time on.
func NewMisbehaviours(peer string, changed func()) *Misbehaviours {
	for _, reason := range []string{kube.ReasonAnswerTooLarge, kube.ReasonListTooLarge, kube.ReasonTooManyObjects, kube.ReasonTooManyWrites, ReasonTooManyStatuses} {
		misbehaves.WithLabelValues(peer, reason)
	}
	return &Misbehaviours{Peer: peer, Changed: changed}
}

// Report is called when the peer reaches a limit.
func (c *Misbehaviours) Report(reason, message string) {
	if c == nil {
		return
	}
	misbehaves.WithLabelValues(c.Peer, reason).Inc()
	c.mu.Lock()
	news := c.reason != reason || time.Since(c.at) > misbehaviourPeriod
	c.reason, c.message, c.at = reason, message, time.Now()
	c.mu.Unlock()
	if news && c.Changed != nil {
		c.Changed()
	}
}

// Misbehaviour is a limit reached by a peer.
type Misbehaviour struct {
	Reason, Message string
	// Until is the time at which the report ends, unless the limit is reached again.
	Until time.Time
}

// Now returns the recent misbehaviour of the peer, nil if none.
func (c *Misbehaviours) Now() *Misbehaviour {
	if c == nil {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	until := c.at.Add(misbehaviourPeriod)
	if c.reason == "" || !time.Now().Before(until) {
		return nil
	}
	return &Misbehaviour{Reason: c.reason, Message: c.message, Until: until}
}

// Close deletes the series of a removed peer.
func (c *Misbehaviours) Close() { misbehaves.DeletePartialMatch(prometheus.Labels{"peer": c.Peer}) }
