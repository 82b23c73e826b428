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
	Help: "How often a peer exceeded a limit on data read from it, or written because of it.",
}, []string{"peer", "reason"})

func init() { metrics.Registry.MustRegister(misbehaves) }

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
