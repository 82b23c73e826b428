// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package multicluster

import (
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
)

var misbehaves = prometheus.NewCounterVec(prometheus.CounterOpts{
	Name: "liqo_peer_misbehaves_total",
	Help: "How often a peer reached a bound of what is read from it, or written because of it.",
}, []string{"peer", "reason"})

func init() { metrics.Registry.MustRegister(misbehaves) }

// conductMemory is how long it is told what a peer did.
const conductMemory = 10 * time.Minute

// Conduct is which bounds a peer reached lately. Its methods may be called from any goroutine, also on nil.
type Conduct struct {
	// Peer is the cluster, for metrics.
	Peer string
	// Changed is called when a peer begins to misbehave, or does so in another way. May be nil.
	Changed func()

	mu              sync.Mutex
	reason, message string
	at              time.Time
}

// Report is called when the peer reaches a bound.
func (c *Conduct) Report(reason, message string) {
	if c == nil {
		return
	}
	misbehaves.WithLabelValues(c.Peer, reason).Inc()
	c.mu.Lock()
	news := c.reason != reason || time.Since(c.at) > conductMemory
	c.reason, c.message, c.at = reason, message, time.Now()
	c.mu.Unlock()
	if news && c.Changed != nil {
		c.Changed()
	}
}

// Misbehaviour is what a peer did that is told of.
type Misbehaviour struct {
	Reason, Message string
	// Until is when it is forgotten, unless it happens again.
	Until time.Time
}

// Now returns what the peer did lately, nil for nothing.
func (c *Conduct) Now() *Misbehaviour {
	if c == nil {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	until := c.at.Add(conductMemory)
	if c.reason == "" || !time.Now().Before(until) {
		return nil
	}
	return &Misbehaviour{Reason: c.reason, Message: c.message, Until: until}
}

// Close removes the series of a peer that is gone.
func (c *Conduct) Close() { misbehaves.DeletePartialMatch(prometheus.Labels{"peer": c.Peer}) }
