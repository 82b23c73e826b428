// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"net/http"
	"sync"
	"time"

	"k8s.io/client-go/rest"
)

// ServerClock observes how far the clock of an API server is ahead. Times in objects are of the API server's clock. Nil is the clock of this machine.
type ServerClock struct {
	mu    sync.Mutex
	ahead time.Duration
	best  time.Duration // how long the answer took: the shortest is the most precise
	at    time.Time     // when the answer was received
}

// NewServerClock returns the clock of the API server of a connection, and observes the connection from now on.
func NewServerClock(cfg *rest.Config) *ServerClock {
	c := &ServerClock{}
	cfg.Wrap(func(next http.RoundTripper) http.RoundTripper { return observer{c, next} })
	return c
}

// Now returns the time of the API server.
func (c *ServerClock) Now() time.Time { return time.Now().Add(c.Skew()) }

// Skew returns how far the API server is ahead, 0 for less than can be told.
func (c *ServerClock) Skew() time.Duration {
	if c == nil {
		return 0
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ahead.Abs() < 2*time.Second {
		return 0
	}
	return c.ahead
}

// answerTTL is the time to live of an answer: clocks drift, and are set.
const answerTTL = time.Minute

// noteDate takes an answer into account if the answer is more precise than the last, contradicts the last, or comes when the last is old. Date has
// whole seconds, on average half a second late.
func (c *ServerClock) noteDate(date, sent, received time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	took := received.Sub(sent)
	ahead := date.Add(time.Second / 2).Sub(sent.Add(took / 2))
	contradicts := (ahead - c.ahead).Abs() > took+time.Second
	if contradicts || took < c.best || received.Sub(c.at) > answerTTL {
		c.best, c.ahead, c.at = took, ahead, received
	}
}

// observer compares the header Date of answers with the time of this machine.
type observer struct {
	clock *ServerClock
	next  http.RoundTripper
}

// RoundTrip sends a request.
func (o observer) RoundTrip(r *http.Request) (*http.Response, error) {
	sent := time.Now()
	answer, err := o.next.RoundTrip(r)
	if err != nil {
		return answer, err
	}
	if date, err := http.ParseTime(answer.Header.Get("Date")); err == nil {
		o.clock.noteDate(date, sent, time.Now())
	}
	return answer, nil
}
