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

// receiveWindow makes the reader wait while too many packets are inside. What waits stays in the kernel's queue, where it counts
// with its true size and where TCP sees it.
type receiveWindow struct {
	limit int

	mu     sync.Mutex
	inside int
	room   chan struct{} // has one element if something left since the last wait
}

func newWindow(limit int) *receiveWindow {
	return &receiveWindow{limit: limit, room: make(chan struct{}, 1)}
}

func (w *receiveWindow) addInFlight(n int) {
	w.mu.Lock()
	w.inside += n
	w.mu.Unlock()
}

// removeInFlight may be called for more than entered: handshakes and keepalives begin inside.
func (w *receiveWindow) removeInFlight(n int) {
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

func (w *receiveWindow) isFull() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.inside >= w.limit
}

func (w *receiveWindow) waitForSpace() {
	if !w.isFull() {
		return
	}
	timer := time.NewTimer(patience)
	defer timer.Stop()
	for w.isFull() {
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

// windowGate is the reader's end of a window. Whoever reads keeps the buffers of packets that it drops at once, and queues the
// others, with new buffers in their place: so garbage from the network takes no room. One goroutine uses it.
type windowGate struct {
	*receiveWindow
	last []windowSlot // of the last read
}

type windowSlot struct {
	index  int
	buffer *byte
}

// beforeRead is called when the reader is done with what it read last, and waits for room.
func (g *windowGate) beforeRead(bufs [][]byte) {
	dropped := 0
	for _, s := range g.last {
		if &bufs[s.index][0] == s.buffer {
			dropped++
		}
	}
	g.last = g.last[:0]
	g.removeInFlight(dropped)
	g.waitForSpace()
}

// afterRead is called with what was read. Packets that counts says no of do not stay inside.
func (g *windowGate) afterRead(bufs [][]byte, n int, counts func(i int) bool) {
	for i := range n {
		if counts(i) {
			g.last = append(g.last, windowSlot{i, &bufs[i][0]})
		}
	}
	g.addInFlight(len(g.last))
}
