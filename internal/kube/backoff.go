// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"sync"
	"time"
)

// backoffBase, backoffFactor and backoffCap give the delays of a Backoff: 1 s, 4 s, 16 s, 64 s, then 5 minutes. The
// backoff resets after backoffQuiet, or twice the last delay, without a recorded attempt.
const (
	backoffBase   = time.Second
	backoffFactor = 4
	backoffCap    = 5 * time.Minute
	backoffQuiet  = time.Minute
)

// backoffDelay returns the delay after n consecutive attempts.
func backoffDelay(n int) time.Duration {
	delay := backoffBase
	for ; n > 1 && delay < backoffCap; n-- {
		delay *= backoffFactor
	}
	return min(delay, backoffCap)
}

// repeatCount is the number of consecutive attempts and the time of the last one.
type repeatCount struct {
	count int
	last  time.Time
}

// backoffDelay returns the delay after the last attempt. The first free attempts have no delay.
func (a repeatCount) backoffDelay(free int) time.Duration {
	if a.count <= free {
		return 0
	}
	return backoffDelay(a.count - free)
}

// isQuiet reports whether the last attempt is old enough to reset the backoff.
func (a repeatCount) isQuiet(now time.Time, free int) bool {
	return a.count == 0 || now.Sub(a.last) >= max(backoffQuiet, 2*a.backoffDelay(free)) || now.Before(a.last)
}

// remaining returns the rest of the delay.
func (a repeatCount) remaining(now time.Time, free int) time.Duration {
	if a.isQuiet(now, free) {
		return 0
	}
	return max(a.last.Add(a.backoffDelay(free)).Sub(now), 0)
}

// afterNext returns the state after another attempt.
func (a repeatCount) afterNext(now time.Time, free int) repeatCount {
	if a.isQuiet(now, free) {
		a.count = 0
	}
	return repeatCount{count: a.count + 1, last: now}
}

// Backoff is an exponential backoff for each key. The zero value is ready for use.
type Backoff[K comparable] struct {
	mu sync.Mutex
	of map[K]repeatCount
}

// Left returns the remaining delay before the next attempt, 0 if none.
func (b *Backoff[K]) Left(key K, now time.Time) time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.of[key].remaining(now, 0)
}

// Next records an attempt and returns the delay before the next one.
func (b *Backoff[K]) Next(key K, now time.Time) time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.of == nil {
		b.of = map[K]repeatCount{}
	}
	for key, a := range b.of {
		if a.isQuiet(now, 0) {
			delete(b.of, key)
		}
	}
	b.of[key] = b.of[key].afterNext(now, 0)
	return b.of[key].remaining(now, 0)
}
