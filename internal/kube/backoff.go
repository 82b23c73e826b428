// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"sync"
	"time"
)

// The delays of a Backoff: 1 s, 4 s, 16 s, 64 s, then 5 minutes. After a minute, or twice the last delay, in which nothing was recorded,
// they begin anew.
const (
	backoffBase   = time.Second
	backoffFactor = 4
	backoffCap    = 5 * time.Minute
	backoffQuiet  = time.Minute
)

// backoffDelay returns how long to wait after n times in a row.
func backoffDelay(n int) time.Duration {
	delay := backoffBase
	for ; n > 1 && delay < backoffCap; n-- {
		delay *= backoffFactor
	}
	return min(delay, backoffCap)
}

// repeatCount is how often something was done in a row, and when it was done last.
type repeatCount struct {
	count int
	last  time.Time
}

// backoffDelay returns how long to wait after the last attempt; the first free ones are followed by none.
func (a repeatCount) backoffDelay(free int) time.Duration {
	if a.count <= free {
		return 0
	}
	return backoffDelay(a.count - free)
}

// isQuiet reports whether the last attempt is so long ago that the next one is a first one.
func (a repeatCount) isQuiet(now time.Time, free int) bool {
	return a.count == 0 || now.Sub(a.last) >= max(backoffQuiet, 2*a.backoffDelay(free)) || now.Before(a.last)
}

// remaining returns how much of the delay is left.
func (a repeatCount) remaining(now time.Time, free int) time.Duration {
	if a.isQuiet(now, free) {
		return 0
	}
	return max(a.last.Add(a.backoffDelay(free)).Sub(now), 0)
}

// afterNext returns the state after one more.
func (a repeatCount) afterNext(now time.Time, free int) repeatCount {
	if a.isQuiet(now, free) {
		a.count = 0
	}
	return repeatCount{count: a.count + 1, last: now}
}

// Backoff keeps apart, for each key, what must not be repeated quickly. The zero value is ready for use.
type Backoff[K comparable] struct {
	mu sync.Mutex
	of map[K]repeatCount
}

// Left returns how long to wait before the next attempt, 0 if it may be now.
func (b *Backoff[K]) Left(key K, now time.Time) time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.of[key].remaining(now, 0)
}

// Next records an attempt, and returns how long to wait before the next one.
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
