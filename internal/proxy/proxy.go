// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

// Package proxy is an HTTP CONNECT proxy to the API server of this cluster only: the requested host is validated, but the connection always goes to
// the API server. The content is TLS between client and API server. The API server authenticates the client.
package proxy

import (
	"bufio"
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
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// Options configure a Proxy. The zero value of a field is a default.
type Options struct {
	// Target is the host and port of the API server.
	Target string
	// Hosts are the hosts allowed in requests, any if empty. All are connected to the target.
	Hosts []string
	// Connections limits the concurrent clients, and each address to half of them; 0 is 1000.
	Connections int
	// Head is the time-out of a request's head, Dial of the connection to the target, Linger of a half-closed connection, and Grace of open
	// connections at shutdown; 0 is 10, 10, 30 and 20 seconds.
	Head, Dial, Linger, Grace time.Duration
	Log                       logr.Logger
}

// Proxy is an http.Handler for CONNECT requests.
type Proxy struct {
	options Options
	rule    hostRule
	dialer  net.Dialer
	metrics *metrics

	limit    connectionLimit // for requests being read and for tunnels
	ready    atomic.Bool
	reported atomic.Bool // the failure of the target was logged

	mu      sync.Mutex
	ending  bool // no new tunnels
	tunnels sync.WaitGroup
	cut     context.Context // cancelled to cut the tunnels
	cutAll  context.CancelFunc
}

// keepAlive detects a dead client or API server after 90 seconds.
var keepAlive = net.KeepAliveConfig{Enable: true, Idle: 30 * time.Second, Interval: 10 * time.Second, Count: 6}

// largestHead is the limit of a request's head in bytes, larger than the head of any Kubernetes client.
const largestHead = 8 << 10

// New returns a proxy.
func New(o Options) (*Proxy, error) {
	if _, ok := parseAuthority(o.Target); !ok {
		return nil, fmt.Errorf("%q is not a host with a port", o.Target)
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
	p.limit = connectionLimit{most: o.Connections, of: map[string]int{}}
	p.metrics = newMetrics(func() float64 { return float64(p.limit.usedSlots()) })
	p.cut, p.cutAll = context.WithCancel(context.Background())
	return p, nil
}

// Listen listens for clients.
func Listen(ctx context.Context, address string) (net.Listener, error) {
	return (&net.ListenConfig{KeepAliveConfig: keepAlive}).Listen(ctx, "tcp", address)
}

// Serve serves clients until ctx ends, then waits for the open tunnels, at most Grace.
func (p *Proxy) Serve(ctx context.Context, on net.Listener) error {
	server := &http.Server{
		Handler:                      p,
		ReadHeaderTimeout:            p.options.Head,
		MaxHeaderBytes:               largestHead,
		DisableGeneralOptionsHandler: true,
		ConnState:                    p.trackClient,
		// Malformed requests are counted in the metrics.
		ErrorLog: log.New(io.Discard, "", 0),
	}
	server.SetKeepAlivesEnabled(false)
	defer p.cutAll()
	defer context.AfterFunc(ctx, func() { _ = server.Close() })() // hijacked connections stay open
	p.ready.Store(true)
	defer p.ready.Store(false)
	if err := server.Serve(on); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serving clients: %w", err)
	}
	p.ready.Store(false)
	p.drainTunnels()
	return nil
}

// drainTunnels waits for the tunnels and cuts those open after Grace.
func (p *Proxy) drainTunnels() {
	p.mu.Lock()
	p.ending = true
	p.mu.Unlock()
	ended := make(chan struct{})
	go func() {
		p.tunnels.Wait()
		close(ended)
	}()
	timer := time.NewTimer(p.options.Grace)
	defer timer.Stop()
	select {
	case <-ended:
		return
	case <-timer.C:
	}
	p.options.Log.Info("cutting the connections that have not ended", "connections", p.limit.usedSlots())
	p.cutAll()
	<-ended
}

// beginTunnel registers a tunnel; it returns false during shutdown.
func (p *Proxy) beginTunnel() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.ending {
		p.tunnels.Add(1)
	}
	return !p.ending
}

// Ready returns an error while the proxy does not listen.
func (p *Proxy) Ready() error {
	if !p.ready.Load() {
		return errors.New("not listening")
	}
	return nil
}

const full = "HTTP/1.1 503 Service Unavailable\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"

// trackClient counts clients until their connection ends or becomes a tunnel, and rejects clients beyond the limit.
func (p *Proxy) trackClient(c net.Conn, state http.ConnState) {
	switch state {
	case http.StateNew:
		if !p.limit.acquireSlot(c.RemoteAddr()) {
			p.metrics.countResult(resultFull)
			_ = c.SetWriteDeadline(time.Now().Add(time.Second)) // fits the empty send buffer: the write does not block
			_, _ = io.WriteString(c, full)
			_ = c.Close()
		}
	case http.StateClosed:
		p.limit.releaseSlot(c.RemoteAddr())
	}
}

// ServeHTTP answers one request.
func (p *Proxy) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	if why := p.rule.checkRequest(requestOf(req)); why != nil {
		p.rejectRequest(w, *why)
		return
	}
	target, err := p.dialer.DialContext(req.Context(), "tcp", p.options.Target)
	if err != nil {
		p.logUnreachable(req.Context(), err)
		p.rejectRequest(w, rejectedRequest{http.StatusBadGateway, resultUnreachable, "the API server is not reached"})
		return
	}
	p.logRecovery()
	client, early, err := http.NewResponseController(w).Hijack()
	if err != nil {
		_ = target.Close()
		return
	}
	defer p.limit.releaseSlot(client.RemoteAddr()) // the server does not report the end of a hijacked connection
	t := tunnel{client: client, target: target, linger: p.options.Linger}
	if !p.beginTunnel() {
		t.closeBoth()
		return
	}
	defer p.tunnels.Done()
	defer context.AfterFunc(p.cut, t.closeBoth)()
	if _, err := io.WriteString(client, "HTTP/1.1 200 Connection established\r\n\r\n"); err != nil {
		t.closeBoth()
		return
	}
	p.metrics.countResult(resultAccepted)
	t.copyBoth(early.Reader)
}

func (p *Proxy) rejectRequest(w http.ResponseWriter, why rejectedRequest) {
	p.metrics.countResult(why.result)
	_ = http.NewResponseController(w).SetReadDeadline(time.Now()) // do not wait for a body
	if why.status == http.StatusMethodNotAllowed {
		w.Header().Set("Allow", http.MethodConnect)
	}
	w.Header().Set("Connection", "close")
	http.Error(w, why.why, why.status)
}

// logUnreachable logs the first failure to reach the API server, logRecovery logs the recovery.
func (p *Proxy) logUnreachable(ctx context.Context, err error) {
	if ctx.Err() == nil && !p.reported.Swap(true) {
		p.options.Log.Error(err, "the API server is not reached", "target", p.options.Target)
	}
}

func (p *Proxy) logRecovery() {
	if p.reported.Swap(false) {
		p.options.Log.Info("the API server is reached again", "target", p.options.Target)
	}
}

// connectionLimit limits the number of clients. Each address may use half of the limit: a greedy client leaves the rest free.
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

// metrics count clients and results of requests. They do not identify clients.
type metrics struct {
	registry *prometheus.Registry
	requests *prometheus.CounterVec
}

func newMetrics(open func() float64) *metrics {
	m := &metrics{
		registry: prometheus.NewRegistry(),
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "liqo_proxy_requests_total", Help: "Requests of peers to be connected with the API server, by result.",
		}, []string{"result"}),
	}
	for _, result := range []string{resultAccepted, resultMethod, resultMalformed, resultHost, resultUnreachable, resultFull} {
		m.requests.WithLabelValues(result)
	}
	m.registry.MustRegister(m.requests, prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "liqo_proxy_connections", Help: "Connections of clients that are open.",
	}, open))
	return m
}

func (m *metrics) countResult(result string) { m.requests.WithLabelValues(result).Inc() }

// Metrics returns the handler of the metrics endpoint.
func (p *Proxy) Metrics() http.Handler {
	return promhttp.HandlerFor(p.metrics.registry, promhttp.HandlerOpts{})
}

// tunnel is a client connected to the API server.
type tunnel struct {
	client, target net.Conn
	linger         time.Duration
}

// copyBoth copies in both directions until both have ended, and closes both connections. Data sent by the client before the response goes first.
func (t tunnel) copyBoth(early *bufio.Reader) {
	defer t.closeBoth()
	var up sync.WaitGroup
	up.Go(func() {
		if n := early.Buffered(); n > 0 {
			if _, err := io.CopyN(t.target, early, int64(n)); err != nil {
				t.closeBoth()
				return
			}
		}
		t.copyOneWay(t.target, t.client)
	})
	t.copyOneWay(t.client, t.target)
	up.Wait()
}

// copyOneWay copies one direction, in the kernel if possible (splice). At the end it half-closes the destination. The destination then has Linger to
// end, too.
func (t tunnel) copyOneWay(to, from net.Conn) {
	_, err := io.Copy(to, from)
	if closer, ok := to.(interface{ CloseWrite() error }); err == nil && ok {
		err = closer.CloseWrite()
	}
	if err != nil {
		t.closeBoth()
		return
	}
	end := time.Now().Add(t.linger)
	_, _ = to.SetReadDeadline(end), from.SetWriteDeadline(end)
}

// closeBoth may be called more than once.
func (t tunnel) closeBoth() { _, _ = t.client.Close(), t.target.Close() }
