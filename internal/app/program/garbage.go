// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package program

import (
	"math"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
)

const (
	// cachesPercent is the GOGC value, in percent of the live heap: where caches dominate, half the garbage costs little more CPU.
	cachesPercent = 50
	// leastGarbage is the minimum garbage that LeaveGarbage allows, in bytes.
	leastGarbage = 16 << 20
)

// LeaveGarbage allows 16 MiB of garbage before a collection, and more for a larger live heap. With small caches the live heap is a few MiB,
// half of that is garbage after a few API responses, and most of the CPU of a burst would go into collections: BenchmarkGarbage measures a quarter
// of the CPU of GOGC=100. A memory limit alone (GOMEMLIMIT with GOGC=off) would fill the limit.
func LeaveGarbage() {
	runtime.SetFinalizer(&collection{}, func(*collection) { LeaveGarbage() }) // the live heap is known after each collection
	live := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(live)
	debug.SetGCPercent(percentOf(live[0].Value.Uint64()))
}

// collection becomes garbage in the next cycle. It is too large for the tiny allocator, where it would share
// its memory with live objects.
type collection [32]byte

// percentOf rounds the live heap up to 4 MiB: the runtime does not collect a heap smaller than 4 MiB times
// the percentage.
func percentOf(live uint64) int {
	return int(max(cachesPercent, leastGarbage*100/max(live, 4<<20)))
}

// LimitMemory sets the soft memory limit below the limit of the container: GOMEMLIMIT is the whole limit, and some memory is not managed
// by the collector.
func LimitMemory() {
	if most := debug.SetMemoryLimit(-1); most != math.MaxInt64 {
		debug.SetMemoryLimit(most / 10 * 9)
	}
}
