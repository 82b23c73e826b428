// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package proxy

import (
	"net"
	"sync"
)

// room counts clients. One address has half of it, so that who takes all that it can leaves the other half to others.
type room struct {
	most int

	mu  sync.Mutex
	all int
	of  map[string]int // by address
}

// enter is false where there is no room. Who got none leaves, too.
func (r *room) enter(from net.Addr) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	who := host(from)
	r.all++
	r.of[who]++
	return r.all <= r.most && r.of[who] <= (r.most+1)/2
}

func (r *room) leave(from net.Addr) {
	r.mu.Lock()
	defer r.mu.Unlock()
	who := host(from)
	r.all--
	if r.of[who]--; r.of[who] == 0 {
		delete(r.of, who)
	}
}

func (r *room) taken() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.all
}

func host(from net.Addr) string {
	if tcp, ok := from.(*net.TCPAddr); ok {
		return tcp.AddrPort().Addr().Unmap().String()
	}
	return from.String()
}
