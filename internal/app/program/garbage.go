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
	// cachesPercent is how much garbage is left before it is collected, in percent of what is alive: where caches dominate, half the garbage
	// costs little more CPU.
	cachesPercent = 50
	// leastGarbage is what LeaveGarbage leaves at least, in bytes.
	leastGarbage = 16 << 20
)

// LeaveGarbage has this process leave 16 MiB of garbage before it collects it, and more where more is alive. Half of the few MiB that are alive
// where caches are small is garbage after some answers of an API server, and most of the CPU of a burst would go into collecting.
func LeaveGarbage() {
	runtime.SetFinalizer(&collection{}, func(*collection) { LeaveGarbage() }) // what is alive is known after each collection
	live := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(live)
	debug.SetGCPercent(percentOf(live[0].Value.Uint64()))
}

// collection is garbage in the next one. It is too large to share its memory with others, which may be alive.
type collection [32]byte

// percentOf takes 4 MiB for less: nothing is collected of a heap of less than that times the percentage.
func percentOf(live uint64) int {
	return int(max(cachesPercent, leastGarbage*100/max(live, 4<<20)))
}

// LimitMemory has garbage collected before the memory that a container may have is full: GOMEMLIMIT is all of it, and not everything that
// takes memory is the collector's.
func LimitMemory() {
	if most := debug.SetMemoryLimit(-1); most != math.MaxInt64 {
		debug.SetMemoryLimit(most / 10 * 9)
	}
}
