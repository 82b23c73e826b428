// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package wg

import (
	"sync"
	"time"
)

// packetsInside bounds, per direction, how many packets the library holds between reading and writing. It takes a buffer of
// 64 KiB for each of them, whatever their size, and its own queues end at 1024 batches of 128 packets: 8 GiB. 256 packets
// are 16 MiB; more of them were slower, because they do not fit caches.
const packetsInside = 256

// patience is how long a full window waits for packets to leave. Packets that the library drops never leave: those without a
// peer, those that wait for a handshake, those that fail to decrypt. Then the count starts again.
const patience = 2 * time.Millisecond

// window makes the reader wait while too many packets are inside. What waits stays in the kernel's queue, where it counts
// with its true size and where TCP sees it.
type window struct {
	limit int

	mu     sync.Mutex
	inside int
	room   chan struct{} // has one element if something left since the last wait
}

func newWindow(limit int) *window { return &window{limit: limit, room: make(chan struct{}, 1)} }

func (w *window) enter(n int) {
	w.mu.Lock()
	w.inside += n
	w.mu.Unlock()
}

// leave may be called for more than entered: handshakes and keepalives begin inside.
func (w *window) leave(n int) {
	w.mu.Lock()
	w.inside = max(w.inside-n, 0)
	w.mu.Unlock()
	select {
	case w.room <- struct{}{}:
	default:
	}
}

func (w *window) full() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.inside >= w.limit
}

func (w *window) wait() {
	if !w.full() {
		return
	}
	timer := time.NewTimer(patience)
	defer timer.Stop()
	for w.full() {
		select {
		case <-w.room:
			timer.Reset(patience)
		case <-timer.C:
			w.mu.Lock()
			w.inside = 0
			w.mu.Unlock()
		}
	}
}
