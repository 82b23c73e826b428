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
	// maxPaced bounds how many objects are remembered.
	maxPaced = 10_000
)

// copyPace bounds how often the peer can have a status written, object by object. The zero value is ready for use.
type copyPace struct {
	mu     sync.Mutex
	byName map[string]flowcontrol.RateLimiter
}

// allowCopy reports whether the status of an object may be written now.
func (p *copyPace) allowCopy(key string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	limiter, ok := p.byName[key]
	if !ok {
		if p.byName == nil || len(p.byName) >= maxPaced {
			p.byName = map[string]flowcontrol.RateLimiter{} // better too often than remembered for ever
		}
		limiter = flowcontrol.NewTokenBucketRateLimiter(float32(time.Second)/float32(statusInterval), statusBurst)
		p.byName[key] = limiter
	}
	return limiter.TryAccept()
}
