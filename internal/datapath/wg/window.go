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

// patience is how long a full window waits for packets to leave. Of what the library drops after queueing it nothing is
// seen: what waits for a handshake too long, what fails to decrypt, what has a source that is not allowed. Then the count
// starts again.
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
	if n == 0 {
		return
	}
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

// gate is the reader's end of a window. Whoever reads keeps the buffers of packets that it drops at once, and queues the
// others, with new buffers in their place: so garbage from the network takes no room. One goroutine uses it.
type gate struct {
	*window
	last []slot // of the last read
}

type slot struct {
	index  int
	buffer *byte
}

// before is called when the reader is done with what it read last, and waits for room.
func (g *gate) before(bufs [][]byte) {
	dropped := 0
	for _, s := range g.last {
		if &bufs[s.index][0] == s.buffer {
			dropped++
		}
	}
	g.last = g.last[:0]
	g.leave(dropped)
	g.wait()
}

// after is called with what was read. Packets that counts says no of do not stay inside.
func (g *gate) after(bufs [][]byte, n int, counts func(i int) bool) {
	for i := range n {
		if counts(i) {
			g.last = append(g.last, slot{i, &bufs[i][0]})
		}
	}
	g.enter(len(g.last))
}
