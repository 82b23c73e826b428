// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package program

import (
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"testing"
)

var garbage []byte

func TestGarbageIsLeftAndTakesNoMemoryBeforeItIsThere(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(50))
	resident := func() int {
		statm, err := os.ReadFile("/proc/self/statm")
		if err != nil {
			t.Fatal(err)
		}
		pages, err := strconv.Atoi(strings.Fields(string(statm))[1])
		if err != nil {
			t.Fatal(err)
		}
		return pages * os.Getpagesize()
	}
	before := resident()
	LeaveGarbage()
	if grown := resident() - before; grown > len(ballast)/2 {
		t.Errorf("%d bytes more are resident", grown)
	}
	runtime.GC()
	var at, now runtime.MemStats
	runtime.ReadMemStats(&at)
	for range 12 << 10 {
		garbage = make([]byte, 1<<10)
	}
	if runtime.ReadMemStats(&now); now.NumGC != at.NumGC {
		t.Errorf("12 MiB of garbage were collected %d times", now.NumGC-at.NumGC)
	}
	ballast = nil
}
