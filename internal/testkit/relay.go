// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package testkit

import (
	"io"
	"net"
	"net/url"
	"sync"
	"testing"

	"k8s.io/client-go/rest"
)

// Relay passes connections on to an API server and knows which of them live.
type Relay struct {
	target   string
	listener net.Listener
	work     sync.WaitGroup

	mu     sync.Mutex
	opened int
	live   map[int]net.Conn
	// refuse is how many of the next connections end at once, refused how many did.
	refuse, refused int
}

// NewRelay returns a relay in front of the server of cfg, and cfg with the address of the relay.
func NewRelay(t testing.TB, cfg *rest.Config) (*Relay, *rest.Config) {
	t.Helper()
	target, err := url.Parse(cfg.Host)
	if err != nil {
		t.Fatalf("reading the address of the server: %v", err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatalf("opening a relay: %v", err)
	}
	r := &Relay{target: target.Host, listener: listener, live: map[int]net.Conn{}}
	r.work.Go(r.accept)
	t.Cleanup(r.close)
	cfg = rest.CopyConfig(cfg)
	cfg.Host = "https://" + listener.Addr().String()
	return r, cfg
}

// Live returns the connections that are open, by the order in which they were opened, from 0.
func (r *Relay) Live() map[int]bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := map[int]bool{}
	for n := range r.live {
		out[n] = true
	}
	return out
}

// Opened returns the number of connections ever opened.
func (r *Relay) Opened() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.opened
}

// Cut ends all connections, and the next ones at once, so many: the API server is lost to whoever uses the relay, and to nobody else.
// Zero lets all through again.
func (r *Relay) Cut(connections int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.refuse = connections
	if connections == 0 {
		return
	}
	for _, conn := range r.live {
		conn.Close()
	}
}

// Refused returns the number of connections that Cut ended before they were made.
func (r *Relay) Refused() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.refused
}

func (r *Relay) accept() {
	for {
		conn, err := r.listener.Accept()
		if err != nil {
			return
		}
		r.mu.Lock()
		if r.refuse > 0 {
			r.refuse--
			r.refused++
			conn.Close()
			r.mu.Unlock()
			continue
		}
		n := r.opened
		r.opened++
		r.live[n] = conn
		r.mu.Unlock()
		r.work.Go(func() { r.pass(n, conn) })
	}
}

// pass copies both ways until one side ends.
func (r *Relay) pass(n int, conn net.Conn) {
	defer func() {
		conn.Close()
		r.mu.Lock()
		delete(r.live, n)
		r.mu.Unlock()
	}()
	server, err := net.Dial("tcp", r.target)
	if err != nil {
		return
	}
	defer server.Close()
	var back sync.WaitGroup
	back.Go(func() {
		_, _ = io.Copy(conn, server)
		conn.Close()
	})
	_, _ = io.Copy(server, conn)
	server.Close()
	back.Wait()
}

func (r *Relay) close() {
	r.listener.Close()
	r.mu.Lock()
	for _, conn := range r.live {
		conn.Close()
	}
	r.mu.Unlock()
	r.work.Wait()
}
