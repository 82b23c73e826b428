// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package dashboard

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"liqo.io/liqo/internal/ctl/diagnose"
	"liqo.io/liqo/internal/ctl/fleet"
)

// newTestFeed returns a feed of a cluster with pods, and the function that changes them.
func newTestFeed(t *testing.T, pods ...string) (f *feed, change func(pods ...string)) {
	t.Helper()
	facts := &fleet.Facts{Facts: &diagnose.Facts{Now: time.Now()}, ClusterID: "rome"}
	f = newFeed(func(context.Context) (*fleet.Facts, error) { return facts, nil }, func() error { return nil })
	change = func(pods ...string) {
		facts.Pods = nil
		for _, name := range pods {
			facts.Pods = append(facts.Pods, corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name}})
		}
		if err := f.renewSnapshot(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	change(pods...)
	return f, change
}

const testToken = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"

func newTestServer(t *testing.T, f *feed) (address string) {
	t.Helper()
	server := httptest.NewUnstartedServer(nil)
	server.Config.Handler = newHandler(f, testToken, server.Listener.Addr().(*net.TCPAddr))
	server.Start()
	t.Cleanup(server.Close)
	return server.Listener.Addr().String()
}

func TestServerAccess(t *testing.T) {
	f, _ := newTestFeed(t, "web")
	address := newTestServer(t, f)
	_, port, _ := strings.Cut(address, ":")
	const bearer = "Bearer " + testToken
	for name, tc := range map[string]struct {
		method, path, host string
		headers            map[string]string
		want               int
	}{
		"page":                         {path: "/", want: http.StatusOK},
		"page by name":                 {path: "/", host: "localhost:" + port, want: http.StatusMisdirectedRequest},
		"events by name":               {path: "/events", host: "localhost:" + port, headers: map[string]string{"Authorization": bearer, "Origin": "http://localhost:" + port}, want: http.StatusMisdirectedRequest},
		"script":                       {path: "/main.js", want: http.StatusOK},
		"unknown file":                 {path: "/main.go", want: http.StatusNotFound},
		"beyond the folder":            {path: "/../server.go", want: http.StatusTemporaryRedirect},
		"events":                       {path: "/events", headers: map[string]string{"Authorization": bearer}, want: http.StatusOK},
		"events of the same page":      {path: "/events", headers: map[string]string{"Authorization": bearer, "Origin": "http://" + address}, want: http.StatusOK},
		"events without token":         {path: "/events", want: http.StatusUnauthorized},
		"events with an empty token":   {path: "/events", headers: map[string]string{"Authorization": "Bearer "}, want: http.StatusUnauthorized},
		"events with another token":    {path: "/events", headers: map[string]string{"Authorization": "Bearer " + testToken[1:] + "A"}, want: http.StatusUnauthorized},
		"events with a part":           {path: "/events", headers: map[string]string{"Authorization": "Bearer " + testToken[:10]}, want: http.StatusUnauthorized},
		"token in the query":           {path: "/events?token=" + testToken, want: http.StatusUnauthorized},
		"token in a cookie":            {path: "/events", headers: map[string]string{"Cookie": "token=" + testToken}, want: http.StatusUnauthorized},
		"rebound name":                 {path: "/", host: "evil.example:" + port, want: http.StatusMisdirectedRequest},
		"rebound name with token":      {path: "/events", host: "evil.example", headers: map[string]string{"Authorization": bearer}, want: http.StatusMisdirectedRequest},
		"address without port":         {path: "/", host: "127.0.0.1", want: http.StatusMisdirectedRequest},
		"page of another site":         {path: "/events", headers: map[string]string{"Authorization": bearer, "Origin": "https://evil.example"}, want: http.StatusForbidden},
		"page of another local server": {path: "/events", headers: map[string]string{"Authorization": bearer, "Origin": "http://127.0.0.1:1"}, want: http.StatusForbidden},
		"write":                        {method: http.MethodPost, path: "/", want: http.StatusMethodNotAllowed},
		"write of events":              {method: http.MethodPost, path: "/events", headers: map[string]string{"Authorization": bearer}, want: http.StatusMethodNotAllowed},
		"preflight":                    {method: http.MethodOptions, path: "/events", want: http.StatusMethodNotAllowed},
	} {
		t.Run(strings.ReplaceAll(name, " ", "_"), func(t *testing.T) {
			ctx, end := context.WithCancel(t.Context())
			defer end()
			r, err := http.NewRequestWithContext(ctx, tc.method, "http://"+address+tc.path, http.NoBody)
			if err != nil {
				t.Fatal(err)
			}
			if tc.host != "" {
				r.Host = tc.host
			}
			for key, value := range tc.headers {
				r.Header.Set(key, value)
			}
			answer, err := http.DefaultTransport.RoundTrip(r)
			if err != nil {
				t.Fatal(err)
			}
			defer answer.Body.Close()
			if answer.StatusCode != tc.want {
				t.Errorf("status %d, want %d", answer.StatusCode, tc.want)
			}
			for header, want := range map[string]string{"Content-Security-Policy": "default-src 'none'; script-src 'self';", "X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer",
				"Cross-Origin-Resource-Policy": "same-origin"} {
				if !strings.HasPrefix(answer.Header.Get(header), want) {
					t.Errorf("%s is %q", header, answer.Header.Get(header))
				}
			}
			if tc.want == http.StatusOK && answer.Header.Get("Cache-Control") != "no-store" {
				t.Error("the answer may be stored")
			}
			for _, header := range []string{"Set-Cookie", "Access-Control-Allow-Origin"} {
				if answer.Header.Get(header) != "" {
					t.Errorf("%s is set", header)
				}
			}
			if tc.want != http.StatusOK {
				if body, err := io.ReadAll(answer.Body); err != nil || strings.Contains(string(body), "rome") {
					t.Errorf("%v; a refused request reads %s", err, body)
				}
			}
		})
	}
}

// TestPageFiles has no script, style or handler in the HTML, and nothing from elsewhere.
func TestPageFiles(t *testing.T) {
	err := fs.WalkDir(page, "page", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := page.ReadFile(name)
		if found := regexp.MustCompile(`<script>|<style|\sstyle=|\son\w+="|innerHTML|insertAdjacentHTML|\beval\(|https?://[^w]|cookie`).Find(data); found != nil {
			t.Errorf("%s has %s", name, found)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestServerStream has the whole document first, then what changed, with what happened between two reads as one change.
func TestServerStream(t *testing.T) {
	f, change := newTestFeed(t, "a", "b")
	address := newTestServer(t, f)
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+address+"/events", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+testToken)
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	if kind := answer.Header.Get("Content-Type"); kind != "text/event-stream" {
		t.Errorf("Content-Type is %s", kind)
	}
	lines := bufio.NewReader(answer.Body)
	next := func() (m message) {
		t.Helper()
		for {
			line, err := lines.ReadString('\n')
			if err != nil {
				t.Fatal(err)
			}
			if data, is := strings.CutPrefix(line, "data: "); is {
				if err := json.Unmarshal([]byte(data), &m); err != nil {
					t.Fatal(err)
				}
				return m
			}
		}
	}
	if m := next(); !m.Full || len(m.Pods) != 2 || len(m.Sections) != 11 {
		t.Errorf("the first message is %+v", m)
	}
	change("b", "c")
	if m := next(); m.Full || len(m.Pods) != 1 || !strings.Contains(string(m.Pods[0]), `"c"`) || len(m.Gone) != 1 || m.Gone[0] != "shop/a" || m.Sections["slices"] != nil || m.Sections["timeline"] == nil {
		t.Errorf("the second message is %+v", m)
	}
	f.tellProblem(errors.New("connection refused"))
	if m := next(); m.Problem != "connection refused" || len(m.Pods)+len(m.Gone)+len(m.Sections) > 0 {
		t.Errorf("the third message is %+v", m)
	}
	change("b", "c")
	if m := next(); m.Problem != "" {
		t.Errorf("the problem remains: %+v", m)
	}
}

// pipes is a listener whose connections are pipes, so that a test can have its own time.
type pipes struct {
	conns    chan net.Conn
	accepted atomic.Int32
	closed   chan struct{}
}

// Accept returns the server's end of a pipe.
func (p *pipes) Accept() (net.Conn, error) {
	select {
	case conn := <-p.conns:
		p.accepted.Add(1)
		return conn, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

// Close ends Accept.
func (p *pipes) Close() error {
	close(p.closed)
	return nil
}

// Addr returns an address.
func (p *pipes) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 8800} }

// TestServerBounds has clients without the token that hold connections.
func TestServerBounds(t *testing.T) {
	for name, tc := range map[string]struct {
		request string
		// reads has the client read the answers.
		reads bool
		limit time.Duration
	}{
		"silent":         {limit: 5 * time.Second},
		"half a request": {request: "GET / HTTP/1.1\r\nHost: ", limit: 5 * time.Second},
		"idle":           {request: "GET / HTTP/1.1\r\nHost: 127.0.0.1:8800\r\n\r\n", reads: true, limit: time.Minute},
		"never reads":    {request: "GET / HTTP/1.1\r\nHost: 127.0.0.1:8800\r\n\r\n", limit: writeTimeout},
	} {
		t.Run(strings.ReplaceAll(name, " ", "_"), func(t *testing.T) {
			f, _ := newTestFeed(t)
			synctest.Test(t, func(t *testing.T) {
				listener := &pipes{conns: make(chan net.Conn), closed: make(chan struct{})}
				web := newWebServer(newHandler(f, testToken, listener.Addr().(*net.TCPAddr)))
				served := make(chan error, 1)
				go func() { served <- serveLimited(web, listener) }()
				var clients sync.WaitGroup
				for range maxConnections + 1 {
					clients.Go(func() {
						client, server := net.Pipe()
						defer client.Close()
						select {
						case listener.conns <- server:
						case <-listener.closed:
							return
						}
						if _, err := io.WriteString(client, tc.request); err != nil {
							t.Error(err)
						}
						if tc.reads {
							_, _ = io.Copy(io.Discard, client)
							return
						}
						<-listener.closed
					})
				}
				synctest.Wait()
				if n := listener.accepted.Load(); n != maxConnections {
					t.Errorf("%d connections are accepted", n)
				}
				time.Sleep(tc.limit + time.Second) // of the bubble
				synctest.Wait()
				if n := listener.accepted.Load(); n != maxConnections+1 {
					t.Errorf("%d connections are accepted after %v", n, tc.limit)
				}
				web.Close()
				clients.Wait()
				if err := <-served; !errors.Is(err, http.ErrServerClosed) {
					t.Error(err)
				}
			})
		})
	}
}
