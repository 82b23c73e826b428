// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package proxy

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"liqo.io/liqo/internal/testkit"
)

const limit = 2 * time.Minute

// target answers each line with the same, and says goodbye when it has heard the last.
type target struct {
	net.Listener
	held chan net.Conn // those that are connected
}

func newTarget(t *testing.T) *target {
	t.Helper()
	on, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	out := &target{on, make(chan net.Conn, 100)}
	go func() {
		for {
			c, err := on.Accept()
			if err != nil {
				return
			}
			out.held <- c
			go func() {
				defer c.Close()
				if _, err := io.Copy(c, c); err == nil {
					_, _ = io.WriteString(c, "goodbye")
				}
			}()
		}
	}()
	t.Cleanup(func() { _ = on.Close() })
	return out
}

// running is a proxy that serves.
type running struct {
	*Proxy
	address string
	stop    func()
	ended   chan error
}

func run(t *testing.T, o Options) *running {
	t.Helper()
	ignored := goleak.IgnoreCurrent()
	p, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	on, err := Listen(t.Context(), "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	r := &running{p, on.Addr().String(), cancel, make(chan error, 1)}
	go func() { r.ended <- p.Serve(ctx, on) }()
	t.Cleanup(func() {
		cancel()
		select {
		case err := <-r.ended:
			if err != nil {
				t.Error(err)
			}
		case <-time.After(limit):
			t.Error("the proxy does not end")
		}
		err := goleak.Find(ignored)
		for end := time.Now().Add(limit); err != nil && time.Now().Before(end); { // what ends takes its time
			err = goleak.Find(ignored)
		}
		if err != nil {
			t.Error(err)
		}
	})
	testkit.Eventually(t, limit, func() error { return p.Ready() })
	return r
}

// dial is a client of the proxy.
func (r *running) dial(t *testing.T) *client {
	t.Helper()
	return r.dialFrom(t, "127.0.0.1")
}

func (r *running) dialFrom(t *testing.T, source string) *client {
	t.Helper()
	c, err := (&net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(source)}}).DialContext(t.Context(), "tcp", r.address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	_ = c.SetDeadline(time.Now().Add(limit))
	return &client{t, c, bufio.NewReader(c)}
}

type client struct {
	*testing.T
	net.Conn
	reader *bufio.Reader
}

// ask sends the head of a request, and what follows it at once, and returns the status.
func (c *client) ask(head string) int {
	c.Helper()
	if _, err := io.WriteString(c, head); err != nil {
		c.Fatal(err)
	}
	resp, err := http.ReadResponse(c.reader, &http.Request{Method: http.MethodConnect})
	if err != nil {
		c.Fatal(err)
	}
	return resp.StatusCode
}

const connect = "CONNECT api.example:6443 HTTP/1.1\r\nHost: api.example:6443\r\n\r\n"

func (c *client) connected(early string) *client {
	c.Helper()
	if status := c.ask(connect + early); status != http.StatusOK {
		c.Fatalf("the answer is %d", status)
	}
	return c
}

func (c *client) hears(want string) {
	c.Helper()
	got := make([]byte, len(want))
	if _, err := io.ReadFull(c.reader, got); err != nil || string(got) != want {
		c.Fatalf("heard %q, %v, want %q", got, err, want)
	}
}

// wantEnd is about a connection that the proxy ends.
func (c *client) wantEnd() {
	c.Helper()
	if rest, err := io.ReadAll(c.reader); err != nil && !strings.Contains(err.Error(), "reset") || len(rest) > 0 {
		c.Errorf("heard %q, %v", rest, err)
	}
}

func (r *running) wantMetric(t *testing.T, line string) {
	t.Helper()
	testkit.Eventually(t, limit, func() error {
		w := httptest.NewRecorder()
		r.Metrics().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
		if !strings.Contains(w.Body.String(), "\n"+line+"\n") {
			return fmt.Errorf("%q is not in\n%s", line, w.Body)
		}
		return nil
	})
}

func TestProxyTarget(t *testing.T) {
	to := newTarget(t)
	r := run(t, Options{Target: to.Addr().String()})
	c := r.dial(t).connected("early, ") // before it is answered
	if _, err := io.WriteString(c, "late"); err != nil {
		t.Fatal(err)
	}
	c.hears("early, late")
	r.wantMetric(t, "liqo_proxy_connections 1")

	// One half may end before the other.
	if err := c.Conn.(*net.TCPConn).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	c.hears("goodbye")
	c.wantEnd()
	r.wantMetric(t, "liqo_proxy_connections 0")
	r.wantMetric(t, `liqo_proxy_requests_total{result="accepted"} 1`)
}

func TestProxyRejected(t *testing.T) {
	to := newTarget(t)
	r := run(t, Options{Target: to.Addr().String(), Hosts: []string{"api.example:6443"}})
	for head, want := range map[string]int{
		"GET / HTTP/1.1\r\nHost: api.example\r\n\r\n":                                           http.StatusMethodNotAllowed,
		"OPTIONS * HTTP/1.1\r\nHost: api.example\r\n\r\n":                                       http.StatusMethodNotAllowed,
		"POST / HTTP/1.1\r\nHost: api.example\r\nContent-Length: 1000000\r\n\r\nx":              http.StatusMethodNotAllowed,
		"CONNECT other.example:6443 HTTP/1.1\r\nHost: api.example:6443\r\n\r\n":                 http.StatusForbidden,
		"CONNECT api.example HTTP/1.1\r\n\r\n":                                                  http.StatusBadRequest,
		"CONNECT api.example:6443 HTTP/1.1\r\nContent-Length: 5\r\n\r\nhello":                   http.StatusBadRequest,
		"CONNECT api.example:6443 HTTP/1.1\r\nX: " + strings.Repeat("x", 20<<10) + "\r\n\r\n":   http.StatusRequestHeaderFieldsTooLarge,
		"CONNECT api.example:6443 HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n": http.StatusBadRequest,
	} {
		if got := r.dial(t).ask(head); got != want {
			t.Errorf("%.40q: %d, want %d", head, got, want)
		}
	}
	for result, n := range map[string]int{"accepted": 0, "method_refused": 3, "host_refused": 1, "malformed": 3} {
		r.wantMetric(t, fmt.Sprintf("liqo_proxy_requests_total{result=%q} %d", result, n))
	}
	r.wantMetric(t, "liqo_proxy_connections 0")
	if len(to.held) > 0 {
		t.Error("somebody was connected")
	}
}

func TestProxySilentClient(t *testing.T) {
	to := newTarget(t)
	// Who is let in below has to say what it wants within that time, too.
	r := run(t, Options{Target: to.Addr().String(), Head: 5 * time.Second})
	silent, slow := r.dial(t), r.dial(t)
	if _, err := io.WriteString(slow, "CONNECT api.example:6443 HTTP/1.1\r\nX: "); err != nil {
		t.Fatal(err)
	}
	silent.wantEnd()
	slow.wantEnd()
	r.wantMetric(t, "liqo_proxy_connections 0")
	// Who is connected has all the time in the world: more than another one that says nothing.
	c := r.dial(t).connected("")
	r.dial(t).wantEnd()
	if _, err := io.WriteString(c, "late"); err != nil {
		t.Fatal(err)
	}
	c.hears("late")
}

func TestProxyConnectionLimit(t *testing.T) {
	to := newTarget(t)
	r := run(t, Options{Target: to.Addr().String(), Connections: 3})
	first := r.dialFrom(t, "127.0.0.2").connected("")
	r.dialFrom(t, "127.0.0.2").connected("")
	wantFull := func(c *client) {
		t.Helper()
		if resp, err := http.ReadResponse(c.reader, nil); err != nil || resp.StatusCode != http.StatusServiceUnavailable {
			t.Errorf("got %v, %v", resp, err)
		}
	}
	wantFull(r.dialFrom(t, "127.0.0.2")) // half of it is one's
	r.wantMetric(t, "liqo_proxy_connections 2")
	r.dialFrom(t, "127.0.0.3").connected("x").hears("x")
	wantFull(r.dialFrom(t, "127.0.0.3"))
	r.wantMetric(t, `liqo_proxy_requests_total{result="too_many"} 2`)
	_ = first.Close()
	r.wantMetric(t, "liqo_proxy_connections 2")
	r.dialFrom(t, "127.0.0.2").connected("x").hears("x")
	r.wantMetric(t, "liqo_proxy_connections 3")
}

func TestProxyTargetDown(t *testing.T) {
	to := newTarget(t)
	_ = to.Close()
	r := run(t, Options{Target: to.Addr().String()})
	if got := r.dial(t).ask(connect); got != http.StatusBadGateway {
		t.Errorf("the answer is %d", got)
	}
	r.wantMetric(t, `liqo_proxy_requests_total{result="unreachable"} 1`)
	if err := r.Ready(); err != nil {
		t.Errorf("whose API server is away is not ready: %v", err) // peers would be told nothing
	}
}

func TestProxyCloses(t *testing.T) {
	to := newTarget(t)
	r := run(t, Options{Target: to.Addr().String(), Linger: 50 * time.Millisecond})
	c := r.dial(t).connected("x")
	c.hears("x")
	there := <-to.held
	if err := there.(*net.TCPConn).SetLinger(0); err != nil {
		t.Fatal(err)
	}
	_ = there.Close() // with a reset
	c.wantEnd()
	r.wantMetric(t, "liqo_proxy_connections 0")

	// One that ended its half and then says nothing does not hold the other for ever.
	mute, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer mute.Close()
	r = run(t, Options{Target: mute.Addr().String(), Linger: 50 * time.Millisecond})
	c = r.dial(t).connected("")
	if err := c.Conn.(*net.TCPConn).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	c.wantEnd()
	r.wantMetric(t, "liqo_proxy_connections 0")
}

func TestProxyShutdown(t *testing.T) {
	to := newTarget(t)
	r := run(t, Options{Target: to.Addr().String(), Grace: time.Minute})
	c := r.dial(t).connected("x")
	c.hears("x")
	r.stop()
	testkit.Eventually(t, limit, func() error {
		if r.Ready() == nil {
			return fmt.Errorf("it is ready still")
		}
		if more, err := net.Dial("tcp", r.address); err == nil {
			_ = more.Close()
			return fmt.Errorf("it listens still")
		}
		return nil
	})
	if _, err := io.WriteString(c, "y"); err != nil { // nobody is cut off at once
		t.Fatal(err)
	}
	c.hears("y")
	_ = c.Close() // and when the last has gone it ends

	impatient := run(t, Options{Target: to.Addr().String(), Grace: 50 * time.Millisecond})
	c = impatient.dial(t).connected("x")
	c.hears("x")
	impatient.stop()
	c.wantEnd()
}

func TestProxyInvalidOptions(t *testing.T) {
	for _, o := range []Options{{}, {Target: "api.example"}, {Target: "https://api.example:1"}, {Target: "a:1", Hosts: []string{"a b"}}} {
		if _, err := New(o); err == nil {
			t.Errorf("%+v is taken", o)
		}
	}
}
