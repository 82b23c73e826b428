// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package wg

import (
	"sync"
	"time"
)

// packetsInside limits, per direction, the packets held by the library between reading and writing. Each takes a buffer of 64 KiB regardless
// of its size, and the library's own queues end at 1024 batches of 128 packets: 8 GiB. 256 packets are 16 MiB; more were slower, because they
// exceed CPU caches.
const packetsInside = 256

// windowTimeout is the time-out of a full window. Packets dropped by the library after queueing leave no trace: packets that wait too long for a
// handshake, packets that fail decryption, packets with a disallowed source. After the time-out the count restarts.
const windowTimeout = 2 * time.Millisecond

// receiveWindow blocks the reader while too many packets are inside. Waiting packets stay in the kernel's queue, where they count with their
// true size and are visible to TCP.
type receiveWindow struct {
	limit int

	mu     sync.Mutex
	inside int
	room   chan struct{} // has one element if a packet left since the last wait
}

func newWindow(limit int) *receiveWindow {
	return &receiveWindow{limit: limit, room: make(chan struct{}, 1)}
}

func (w *receiveWindow) addInFlight(n int) {
	w.mu.Lock()
	w.inside += n
	w.mu.Unlock()
}

// removeInFlight may remove more packets than were added: handshakes and keepalives originate inside.
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
	timer := time.NewTimer(windowTimeout)
	defer timer.Stop()
	for w.isFull() {
		select {
		case <-w.room:
			timer.Reset(windowTimeout)
		case <-timer.C:
			w.mu.Lock()
			w.inside = 0
			w.mu.Unlock()
		}
	}
}

// windowGate is the reader's end of a window. The reader reuses the buffers of packets dropped at once, and replaces the buffers of queued packets by
// new buffers, so garbage from the network takes no room in the window. A gate is used by one goroutine.
type windowGate struct {
	*receiveWindow
	last []windowSlot // of the last read
}

type windowSlot struct {
	index  int
	buffer *byte
}

// beforeRead is called when the reader has processed the last read. It blocks while the window is full.
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

// afterRead is called after a read. Packets for which counts returns false do not stay inside.
func (g *windowGate) afterRead(bufs [][]byte, n int, counts func(i int) bool) {
	for i := range n {
		if counts(i) {
			g.last = append(g.last, windowSlot{i, &bufs[i][0]})
		}
	}
	g.addInFlight(len(g.last))
}
