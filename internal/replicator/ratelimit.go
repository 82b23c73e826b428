// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package replicator

import (
	"sync"
	"time"

	"k8s.io/client-go/util/flowcontrol"
)

// Rate of status updates of one object: immediate at first, and then every statusInterval.
const (
	statusBurst    = 30
	statusInterval = 2 * time.Second
	// misbehavesAfter is how long the updates of one object must exceed the rate before the peer counts as misbehaving.
	misbehavesAfter = time.Minute
	// maxPaced bounds how many objects are remembered.
	maxPaced = 10_000
)

// copyPace bounds how often the peer can have a status written, object by object. The zero value is ready for use.
type copyPace struct {
	mu     sync.Mutex
	byName map[string]*objectPace
}

// objectPace is the pace of one object, with the first and the last update of a period in which updates exceed the rate.
type objectPace struct {
	limiter     flowcontrol.RateLimiter
	since, last time.Time
}

// allowCopy reports whether the status of an object may be written now. If not, lasting reports whether the updates of the object
// have exceeded the rate for misbehavesAfter.
func (p *copyPace) allowCopy(key string) (allowed, lasting bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	pace, ok := p.byName[key]
	if !ok {
		if p.byName == nil || len(p.byName) >= maxPaced {
			p.byName = map[string]*objectPace{} // better too often than remembered for ever
		}
		pace = &objectPace{limiter: flowcontrol.NewTokenBucketRateLimiter(float32(time.Second)/float32(statusInterval), statusBurst)}
		p.byName[key] = pace
	}
	if pace.limiter.TryAccept() {
		return true, false
	}
	now := time.Now()
	if now.Sub(pace.last) > 5*statusInterval {
		pace.since = now
	}
	pace.last = now
	return false, now.Sub(pace.since) >= misbehavesAfter
}
