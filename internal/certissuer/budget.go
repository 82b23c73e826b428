// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package certissuer

import (
	"sync"
	"time"

	liqov1beta1 "liqo.io/liqo/api/core/v1beta1"
)

// What was issued to an owner is remembered with it, and goes with it. A consumer that deletes its slices and makes them anew would have
// certificates signed without pause, so what each consumer may have signed is bounded, too.
const (
	// certificatesAtOnce is more than a consumer has slices by default, all made at once.
	certificatesAtOnce = 32
	// certificateInterval is how often another one is signed then. Slices whose certificates a policy shortens to ten minutes, as far as it
	// can, are renewed less often all together.
	certificateInterval = 10 * time.Second
)

// signingBudget is what consumers may have signed. The zero value is ready for use.
type signingBudget struct {
	mu sync.Mutex
	// full is when a consumer that asks for nothing more may have all at once again.
	full map[liqov1beta1.ClusterID]time.Time
}

// takeToken returns 0 if another certificate may be signed for a consumer, which counts then, or how long to wait.
func (b *signingBudget) takeToken(consumer liqov1beta1.ClusterID, now time.Time) time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	const most = certificatesAtOnce * certificateInterval
	if b.full == nil {
		b.full = map[liqov1beta1.ClusterID]time.Time{}
	}
	for id, full := range b.full {
		if !full.After(now) {
			delete(b.full, id)
		}
	}
	full, ok := b.full[consumer]
	if !ok || full.After(now.Add(most)) { // the clock was set back
		full = now
	}
	if next := full.Add(certificateInterval); next.After(now.Add(most)) {
		return next.Sub(now.Add(most))
	}
	b.full[consumer] = full.Add(certificateInterval)
	return 0
}
