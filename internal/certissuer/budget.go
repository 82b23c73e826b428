// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package certissuer

import (
	"sync"
	"time"

	liqov1beta1 "liqo.io/liqo/api/core/v1beta1"
)

// Issuance is limited per owner, and the record is deleted with the owner. By deleting and recreating ResourceSlices, a consumer
// would have certificates signed without pause: each consumer has a budget (token bucket), too.
const (
	// certificatesAtOnce is more than a consumer has slices by default, all made at once.
	certificatesAtOnce = 32
	// certificateInterval is the refill interval of the budget. ResourceSlices whose certificates a policy shortens to the minimum of ten
	// minutes need fewer renewals in total.
	certificateInterval = 10 * time.Second
)

// signingBudget is a token bucket for each consumer. The zero value is ready for use.
type signingBudget struct {
	mu sync.Mutex
	// full is the time at which the bucket of an idle consumer is full again.
	full map[liqov1beta1.ClusterID]time.Time
}

// returnToken returns the token of a certificate that was not requested after all.
func (b *signingBudget) returnToken(consumer liqov1beta1.ClusterID) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if full, ok := b.full[consumer]; ok {
		b.full[consumer] = full.Add(-certificateInterval)
	}
}

// takeToken takes a token for a certificate of a consumer and returns 0, or returns the time to wait.
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
