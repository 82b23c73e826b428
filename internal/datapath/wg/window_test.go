// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package wg

import (
	"testing"
	"testing/synctest"
	"time"
)

func TestWindowFull(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWindow(100)
		begin := time.Now()
		w.waitForSpace() // empty
		w.addInFlight(120)
		go func() {
			time.Sleep(windowTimeout / 2)
			w.removeInFlight(10) // 110: still full, but alive
			time.Sleep(windowTimeout / 2)
			w.removeInFlight(20) // 90
		}()
		w.waitForSpace()
		if took := time.Since(begin); took != windowTimeout {
			t.Errorf("waited %s, want %s", took, windowTimeout)
		}
		if w.inside != 90 {
			t.Errorf("%d packets are inside, want 90", w.inside)
		}
	})
}

func TestWindowDroppedPackets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWindow(100)
		w.addInFlight(100)
		begin := time.Now()
		w.waitForSpace()
		if took := time.Since(begin); took != windowTimeout || w.inside != 0 {
			t.Errorf("waited %s, want %s; %d packets are inside", took, windowTimeout, w.inside)
		}
	})
}

func TestWindowExcessLeaves(t *testing.T) {
	w := newWindow(100)
	w.addInFlight(1)
	w.removeInFlight(5)
	w.addInFlight(100)
	if !w.isFull() {
		t.Error("packets that began inside make room for others")
	}
}

func TestWindowQueuedOnly(t *testing.T) {
	bufs := [][]byte{make([]byte, 1), make([]byte, 1), make([]byte, 1), make([]byte, 1)}
	g := windowGate{receiveWindow: newWindow(100)}
	g.beforeRead(bufs)
	g.afterRead(bufs, 3, func(i int) bool { return i != 2 })
	if g.inside != 2 {
		t.Errorf("%d of 3 packets are inside after reading, want 2", g.inside)
	}
	bufs[1], bufs[2] = make([]byte, 1), make([]byte, 1) // queued; 0 was dropped
	g.beforeRead(bufs)
	if g.inside != 1 {
		t.Errorf("%d packets are inside, want the one that was queued", g.inside)
	}
	g.afterRead(bufs, 0, nil)
	g.beforeRead(bufs)
	if g.inside != 1 {
		t.Errorf("%d packets are inside after an empty read, want 1", g.inside)
	}
}
