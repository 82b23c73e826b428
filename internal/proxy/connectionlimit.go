// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package proxy

import (
	"net"
	"sync"
)

// connectionLimit limits the number of clients. Each address may use half of the limit, so a greedy client leaves the rest free.
type connectionLimit struct {
	most int

	mu  sync.Mutex
	all int
	of  map[string]int // by address
}

// acquireSlot counts a client and returns false if the limit is reached. A rejected client must call releaseSlot, too.
func (r *connectionLimit) acquireSlot(from net.Addr) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	who := hostOf(from)
	r.all++
	r.of[who]++
	return r.all <= r.most && r.of[who] <= (r.most+1)/2
}

func (r *connectionLimit) releaseSlot(from net.Addr) {
	r.mu.Lock()
	defer r.mu.Unlock()
	who := hostOf(from)
	r.all--
	if r.of[who]--; r.of[who] == 0 {
		delete(r.of, who)
	}
}

func (r *connectionLimit) usedSlots() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.all
}

func hostOf(from net.Addr) string {
	if tcp, ok := from.(*net.TCPAddr); ok {
		return tcp.AddrPort().Addr().Unmap().String()
	}
	return from.String()
}
