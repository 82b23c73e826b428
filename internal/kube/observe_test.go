// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package kube_test

import (
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	"k8s.io/client-go/rest"

	"liqo.io/liqo/internal/testkit"
)

func TestMain(m *testing.M) { testkit.Main(m) }

// writeCounter counts the writes that go through a configuration.
type writeCounter struct {
	mu     sync.Mutex
	writes []string
}

// counted returns cfg with all its writes counted.
func counted(cfg *rest.Config) (*rest.Config, *writeCounter) {
	t := &writeCounter{}
	cfg = rest.CopyConfig(cfg)
	cfg.Wrap(func(next http.RoundTripper) http.RoundTripper { return countingTransport{t, next} })
	return cfg, t
}

type countingTransport struct {
	traffic *writeCounter
	next    http.RoundTripper
}

func (c countingTransport) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.Method != http.MethodGet {
		c.traffic.mu.Lock()
		c.traffic.writes = append(c.traffic.writes, req.Method+" "+req.URL.Path)
		c.traffic.mu.Unlock()
	}
	return c.next.RoundTrip(req)
}

// of returns the number of writes to a path that ends so.
func (t *writeCounter) of(suffix string) int {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := 0
	for _, write := range t.writes {
		if strings.HasSuffix(write, suffix) {
			n++
		}
	}
	return n
}

// errorLog keeps what is logged as an error.
type errorLog struct {
	mu    sync.Mutex
	lines []string
}

func (l *errorLog) logger() logr.Logger {
	return funcr.New(func(prefix, args string) {
		if !strings.Contains(args, `"error"=`) {
			return
		}
		l.mu.Lock()
		defer l.mu.Unlock()
		l.lines = append(l.lines, prefix+" "+args)
	}, funcr.Options{})
}

// about returns the errors that mention a text.
func (l *errorLog) about(text string) []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	var out []string
	for _, line := range l.lines {
		if strings.Contains(line, text) {
			out = append(out, line)
		}
	}
	return out
}
