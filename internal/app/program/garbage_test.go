// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package program

import (
	"runtime"
	"runtime/debug"
	"testing"
	"time"
)

func TestWhatIsLeftIsDecidedAfterEachCollection(t *testing.T) {
	before := debug.SetGCPercent(cachesPercent)
	defer debug.SetGCPercent(before)
	LeaveGarbage()
	for range 3 {
		debug.SetGCPercent(cachesPercent)
		for deadline := time.Now().Add(time.Minute); debug.SetGCPercent(cachesPercent) == cachesPercent; runtime.GC() {
			if time.Now().After(deadline) {
				t.Fatal("nothing was decided after a collection")
			}
		}
	}
}

func TestHowMuchGarbageIsLeft(t *testing.T) {
	for live, want := range map[uint64]int{0: 400, 4 << 20: 400, 5 << 20: 320, 16 << 20: 100, 32 << 20: 50, 1 << 30: 50} {
		if got := percentOf(live); got != want {
			t.Errorf("of %d bytes alive: %d %%, want %d", live, got, want)
		}
	}
}
