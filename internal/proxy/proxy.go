// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

// Package proxy leads peers to the API server of this cluster, and to nothing else: whatever host they ask for, that is where they are
// connected. What they say there is between them and the API server, by TLS, which tells who they are.
package proxy

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
)

// Options say where clients are led, and how many. Of the rest the zero value is what a process has.
type Options struct {
	// Target is the host and the port of the API server.
	Target string
	// Hosts are those that clients may ask for, any if empty. They get the target in any case.
	Hosts []string
	// Connections is how many clients there may be at once, half of them from one address; 0 for 1000.
	Connections int
	// Head is how long the head of a request may take, Dial the way to the target, Linger an end of a connection after the other one has
	// ended, and Grace what is still connected when the process has to end; 0 for 10, 10, 30 and 20 seconds.
	Head, Dial, Linger, Grace time.Duration
	Log                       logr.Logger
}

// Proxy serves clients.
type Proxy struct {
	options Options
	rule    rule
	dialer  net.Dialer
	metrics *metrics

	room     room // for those whose request is being read, and those that are connected
	ready    atomic.Bool
	reported atomic.Bool // that the target is not reached

	mu      sync.Mutex
	ending  bool // no tunnel begins any more
	tunnels sync.WaitGroup
	cut     context.Context // ends when tunnels have to
	cutAll  context.CancelFunc
}

// A client or an API server that is gone is noticed after a minute and a half, by either.
var keepAlive = net.KeepAliveConfig{Enable: true, Idle: 30 * time.Second, Interval: 10 * time.Second, Count: 6}

// largestHead is more than any client that means the API server sends.
const largestHead = 8 << 10

// New makes a proxy.
func New(o Options) (*Proxy, error) {
	if _, ok := authority(o.Target); !ok {
		return nil, fmt.Errorf("%q is no host with a port", o.Target)
	}
	r, err := newRule(o.Hosts)
	if err != nil {
		return nil, err
	}
	if o.Connections == 0 {
		o.Connections = 1000
	}
	for d, usual := range map[*time.Duration]time.Duration{&o.Head: 10 * time.Second, &o.Dial: 10 * time.Second, &o.Linger: 30 * time.Second, &o.Grace: 20 * time.Second} {
		if *d == 0 {
			*d = usual
		}
	}
	p := &Proxy{options: o, rule: r, dialer: net.Dialer{Timeout: o.Dial, KeepAliveConfig: keepAlive}}
	p.room = room{most: o.Connections, of: map[string]int{}}
	p.metrics = newMetrics(func() float64 { return float64(p.room.taken()) })
	p.cut, p.cutAll = context.WithCancel(context.Background())
	return p, nil
}

// Listen listens for clients.
func Listen(ctx context.Context, address string) (net.Listener, error) {
	return (&net.ListenConfig{KeepAliveConfig: keepAlive}).Listen(ctx, "tcp", address)
}

// Serve serves clients until ctx ends, and then waits for those that are connected, as long as Grace.
func (p *Proxy) Serve(ctx context.Context, on net.Listener) error {
	server := &http.Server{
		Handler:                      p,
		ReadHeaderTimeout:            p.options.Head,
		MaxHeaderBytes:               largestHead,
		DisableGeneralOptionsHandler: true,
		ConnState:                    p.admit,
		// What is wrong with requests of others is counted.
		ErrorLog: log.New(io.Discard, "", 0),
	}
	server.SetKeepAlivesEnabled(false)
	defer p.cutAll()
	defer context.AfterFunc(ctx, func() { _ = server.Close() })() // connections that were taken over stay
	p.ready.Store(true)
	defer p.ready.Store(false)
	if err := server.Serve(on); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serving clients: %w", err)
	}
	p.ready.Store(false)
	p.end()
	return nil
}

// end waits for what is connected, and cuts what does not end.
func (p *Proxy) end() {
	p.mu.Lock()
	p.ending = true
	p.mu.Unlock()
	ended := make(chan struct{})
	go func() {
		p.tunnels.Wait()
		close(ended)
	}()
	patience := time.NewTimer(p.options.Grace)
	defer patience.Stop()
	select {
	case <-ended:
		return
	case <-patience.C:
	}
	p.options.Log.Info("cutting the connections that have not ended", "connections", p.room.taken())
	p.cutAll()
	<-ended
}

// begin is false when it is too late for another tunnel.
func (p *Proxy) begin() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.ending {
		p.tunnels.Add(1)
	}
	return !p.ending
}

// Ready tells why clients are not served.
func (p *Proxy) Ready() error {
	if !p.ready.Load() {
		return errors.New("not listening")
	}
	return nil
}

const full = "HTTP/1.1 503 Service Unavailable\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"

// admit counts clients until their connection ends or becomes a tunnel, and sends those away for whom there is no room.
func (p *Proxy) admit(c net.Conn, state http.ConnState) {
	switch state {
	case http.StateNew:
		if !p.room.enter(c.RemoteAddr()) {
			p.metrics.count(resultFull)
			_ = c.SetWriteDeadline(time.Now().Add(time.Second)) // an empty buffer takes it at once
			_, _ = io.WriteString(c, full)
			_ = c.Close()
		}
	case http.StateClosed:
		p.room.leave(c.RemoteAddr())
	}
}

// ServeHTTP answers one request.
func (p *Proxy) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	if why := p.rule.refuses(asked(req)); why != nil {
		p.refuse(w, *why)
		return
	}
	target, err := p.dialer.DialContext(req.Context(), "tcp", p.options.Target)
	if err != nil {
		p.unreachable(req.Context(), err)
		p.refuse(w, refusal{http.StatusBadGateway, resultUnreachable, "the API server is not reached"})
		return
	}
	p.reached()
	client, early, err := http.NewResponseController(w).Hijack()
	if err != nil {
		_ = target.Close()
		return
	}
	defer p.room.leave(client.RemoteAddr()) // of a connection that was taken over the server tells no end
	t := tunnel{client: client, target: target, linger: p.options.Linger}
	if !p.begin() {
		t.close()
		return
	}
	defer p.tunnels.Done()
	defer context.AfterFunc(p.cut, t.close)()
	if _, err := io.WriteString(client, "HTTP/1.1 200 Connection established\r\n\r\n"); err != nil {
		t.close()
		return
	}
	p.metrics.count(resultAccepted)
	t.run(early.Reader)
}

func (p *Proxy) refuse(w http.ResponseWriter, why refusal) {
	p.metrics.count(why.result)
	_ = http.NewResponseController(w).SetReadDeadline(time.Now()) // a body that may never come is not waited for
	if why.status == http.StatusMethodNotAllowed {
		w.Header().Set("Allow", http.MethodConnect)
	}
	w.Header().Set("Connection", "close")
	http.Error(w, why.why, why.status)
}

// unreachable tells once that the API server is not reached, and reached that it is again.
func (p *Proxy) unreachable(ctx context.Context, err error) {
	if ctx.Err() == nil && !p.reported.Swap(true) {
		p.options.Log.Error(err, "the API server is not reached", "target", p.options.Target)
	}
}

func (p *Proxy) reached() {
	if p.reported.Swap(false) {
		p.options.Log.Info("the API server is reached again", "target", p.options.Target)
	}
}
