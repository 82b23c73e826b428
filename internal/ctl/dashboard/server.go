// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package dashboard

import (
	"crypto/sha256"
	"crypto/subtle"
	"embed"
	"encoding/json"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"strings"
	"time"

	"golang.org/x/net/netutil"
)

// page has the files of the page.
//
//go:embed page
var page embed.FS

// Limits of the resources that other users of this machine can take. maxStreams limits the open pages, maxConnections all connections, also for
// files. A connection that does not take an answer within writeTimeout ends.
const (
	maxStreams     = 32
	maxConnections = 4 * maxStreams
	writeTimeout   = 30 * time.Second
)

// newWebServer returns a server whose connections end if they do nothing.
func newWebServer(handler http.Handler) *http.Server {
	return &http.Server{Handler: handler, ReadHeaderTimeout: 5 * time.Second, IdleTimeout: time.Minute, WriteTimeout: writeTimeout, MaxHeaderBytes: 16 << 10}
}

// serveLimited serves the connections of a listener, maxConnections at once; further connections wait.
func serveLimited(web *http.Server, listener net.Listener) error {
	return web.Serve(netutil.LimitListener(listener, maxConnections))
}

// server serves the page to all on this machine, and the stream of documents to clients with the token.
type server struct {
	feed    *feed
	token   [sha256.Size]byte
	host    string
	streams chan struct{}
}

// newHandler returns the handler of a server at a loopback address.
func newHandler(f *feed, token string, at *net.TCPAddr) http.Handler {
	s := &server{feed: f, token: sha256.Sum256([]byte(token)), host: at.String(), streams: make(chan struct{}, maxStreams)}
	files, err := fs.Sub(page, "page")
	if err != nil {
		panic(err) // the folder is embedded
	}
	mux := http.NewServeMux()
	mux.Handle("GET /", http.FileServerFS(files))
	mux.HandleFunc("GET /events", s.serveEvents)
	return s.protectAnswers(mux)
}

// protectAnswers refuses names of hosts, which a page of another site may have resolved to this machine, and sets the headers of all answers.
// "localhost" is refused, too: a browser that follows it may send the token to ::1, where another user of this machine can serve a page.
func (s *server) protectAnswers(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'")
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		h.Set("Cache-Control", "no-store")
		origin := r.Header.Get("Origin")
		switch {
		case r.Host != s.host:
			http.Error(w, "the dashboard is at http://"+s.host, http.StatusMisdirectedRequest)
		case origin != "" && origin != "http://"+r.Host:
			http.Error(w, "another page must not read the dashboard", http.StatusForbidden)
		case r.Method != http.MethodGet:
			h.Set("Allow", http.MethodGet)
			http.Error(w, "the dashboard only reads", http.StatusMethodNotAllowed)
		default:
			next.ServeHTTP(w, r)
		}
	})
}

// mayRead reports whether a request has the token.
func (s *server) mayRead(r *http.Request) bool {
	token, _ := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	sent := sha256.Sum256([]byte(token)) // a comparison of digests does not reveal the length
	return subtle.ConstantTimeCompare(sent[:], s.token[:]) == 1
}

// serveEvents sends the document, then its changes, as server-sent events. A slow page gets several changes as one.
func (s *server) serveEvents(w http.ResponseWriter, r *http.Request) {
	if !s.mayRead(r) {
		http.Error(w, "the token of the link is missing", http.StatusUnauthorized)
		return
	}
	select {
	case s.streams <- struct{}{}:
		defer func() { <-s.streams }()
		s.feed.pages.Add(1)
		defer s.feed.pages.Add(-1)
	default:
		http.Error(w, "too many pages are open", http.StatusServiceUnavailable)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	out := http.NewResponseController(w)
	var sent *snapshot
	for {
		now := s.feed.current.Load()
		data, err := json.Marshal(now.compareTo(sent))
		if err != nil {
			return
		}
		if out.SetWriteDeadline(time.Now().Add(writeTimeout)) != nil {
			return
		}
		if _, err := fmt.Fprintf(w, "data: %s\n\n", data); err != nil || out.Flush() != nil {
			return
		}
		sent = now
		select {
		case <-now.replaced:
		case <-r.Context().Done():
			return
		}
	}
}
