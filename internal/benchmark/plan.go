// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package benchmark

import (
	"context"
	"crypto/subtle"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"time"
)

const (
	dialTimeout = 10 * time.Second
	// connectTimeout is how long a client tries to reach its targets. Targets become reachable a while after they are ready.
	connectTimeout = time.Minute
	retryPause     = time.Second
	answerTimeout  = 10 * time.Second
	// MostTime is the longest measurement of a server.
	MostTime = time.Minute
	// MostStreams is how many connections a server has at once.
	MostStreams = 64
)

// Requests of a client to a server, after the token.
const (
	askSend byte = 's'
	askEcho byte = 'e'
)

// Serve sends data to clients with the token, or echoes the clients' data, until ctx ends.
func Serve(ctx context.Context, on net.Listener, token string) error {
	defer context.AfterFunc(ctx, func() { _ = on.Close() })()
	slots := make(chan struct{}, MostStreams)
	for {
		c, err := on.Accept()
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil:
			return fmt.Errorf("accepting connections: %w", err)
		}
		select {
		case slots <- struct{}{}:
			go func() {
				defer func() { <-slots }()
				serveConnection(ctx, c, token)
			}()
		default:
			_ = c.Close()
		}
	}
}

func serveConnection(ctx context.Context, c net.Conn, token string) {
	defer c.Close()
	defer context.AfterFunc(ctx, func() { _ = c.Close() })()
	_ = c.SetDeadline(time.Now().Add(answerTimeout))
	header := make([]byte, len(token)+1)
	if _, err := io.ReadFull(c, header); err != nil || subtle.ConstantTimeCompare(header[:len(token)], []byte(token)) != 1 {
		return
	}
	_ = c.SetDeadline(time.Now().Add(WarmUp + MostTime + answerTimeout))
	switch header[len(token)] {
	case askSend:
		Send(c)
	case askEcho:
		Echo(c)
	}
}

// Plan is the work of a client. Targets take turns: all meet the same load of the machines.
type Plan struct {
	Token  string `json:"token"`
	Limits Limits `json:"limits"`
	// Targets are the addresses of servers.
	Targets []string `json:"targets"`
	// Streams are numbers of connections. Each is a measurement of the rate from a target to the client.
	Streams []int `json:"streams,omitempty"`
	// RoundTrips asks for a measurement of round trips.
	RoundTrips bool `json:"roundTrips,omitempty"`
}

// Time returns how long the measurements of a plan take.
func (p Plan) Time() time.Duration {
	each := len(p.Streams)
	if p.RoundTrips {
		each++
	}
	return time.Duration(each*len(p.Targets)) * (WarmUp + p.Limits.Time)
}

// Measured is the result of one target.
type Measured struct {
	// Rates are in the order of the streams of the plan.
	Rates      []Rate  `json:"rates,omitempty"`
	RoundTrips *Spread `json:"roundTrips,omitempty"`
	// Error is why later measurements are missing.
	Error string `json:"error,omitempty"`
}

// Limits of plausible results.
const (
	// mostText is the size of results that a kubelet reads from a pod.
	mostText            = 4096
	leastRate, mostRate = 1e-3, 1e15
	leastTrip, mostTrip = 1e-9, 3600
)

// ParseResults reads the results of Measure. The results of a pod in another cluster are untrusted: ParseResults refuses results that do
// not fit the plan.
func (p Plan) ParseResults(text string) ([]Measured, error) {
	var results []Measured
	if len(text) > mostText {
		return nil, fmt.Errorf("reading results: %d bytes are more than a pod can have", len(text))
	}
	if err := json.Unmarshal([]byte(text), &results); err != nil {
		return nil, fmt.Errorf("reading results: %w", err)
	}
	if len(results) != len(p.Targets) {
		return nil, fmt.Errorf("reading results: %d targets have some, and %d were measured", len(results), len(p.Targets))
	}
	for i, r := range results {
		if !p.isPlausible(r) {
			return nil, fmt.Errorf("reading results: those of %s are not what was asked for", p.Targets[i])
		}
	}
	return results, nil
}

// isPlausible reports whether a result has all measurements of the plan, or fewer and an error, within bounds.
func (p Plan) isPlausible(r Measured) bool {
	for _, rate := range r.Rates {
		if rate.BitsPerSecond < leastRate || rate.BitsPerSecond > mostRate || rate.Bytes <= 0 {
			return false
		}
	}
	if s := r.RoundTrips; s != nil && (!p.RoundTrips || s.Count <= 0 || s.P50 < leastTrip || s.P50 > s.P90 || s.P90 > s.P99 || s.P99 > mostTrip) {
		return false
	}
	if r.Error != "" {
		return len(r.Rates) <= len(p.Streams)
	}
	return len(r.Rates) == len(p.Streams) && (r.RoundTrips != nil) == p.RoundTrips
}

// Spread is how a set of times is reported, in seconds.
type Spread struct {
	Count int     `json:"count"`
	P50   float64 `json:"p50Seconds"`
	P90   float64 `json:"p90Seconds"`
	P99   float64 `json:"p99Seconds"`
}

// SpreadOf sums up times in seconds, at least one.
func SpreadOf(seconds []float64) *Spread {
	return &Spread{Count: len(seconds), P50: Quantile(seconds, 0.5), P90: Quantile(seconds, 0.9), P99: Quantile(seconds, 0.99)}
}

// Measure carries out a plan. Its results are in the order of the targets. A failed target is left out of the later measurements.
func Measure(ctx context.Context, p Plan) []Measured {
	dialer := net.Dialer{Timeout: dialTimeout}
	return p.measureTargets(ctx, func(target string) (net.Conn, error) { return dialer.DialContext(ctx, "tcp", target) })
}

func (p Plan) measureTargets(ctx context.Context, dial func(target string) (net.Conn, error)) []Measured {
	connecting, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	connect := func(target string, ask byte, count int) ([]net.Conn, error) {
		return p.openConnections(connecting, func() (net.Conn, error) { return dial(target) }, ask, count)
	}
	results := make([]Measured, len(p.Targets))
	each := func(measure func(target string, result *Measured) error) {
		for i, target := range p.Targets {
			if results[i].Error != "" {
				continue
			}
			if err := measure(target, &results[i]); err != nil {
				results[i].Error = err.Error()
			}
		}
	}
	for _, streams := range p.Streams {
		each(func(target string, result *Measured) error {
			conns, err := connect(target, askSend, streams)
			if err != nil {
				return err
			}
			rate, err := Receive(ctx, conns, p.Limits)
			if err == nil {
				result.Rates = append(result.Rates, rate)
			}
			return err
		})
	}
	if p.RoundTrips {
		each(func(target string, result *Measured) error {
			conns, err := connect(target, askEcho, 1)
			if err != nil {
				return err
			}
			defer conns[0].Close()
			defer context.AfterFunc(ctx, func() { _ = conns[0].Close() })()
			times, err := RoundTrips(conns[0], p.Limits.Time)
			if err == nil {
				result.RoundTrips = SpreadOf(times)
			}
			return err
		})
	}
	return results
}

// openConnections returns connections after sending the token and the request to the target. It tries again until ctx ends.
func (p Plan) openConnections(ctx context.Context, dial func() (net.Conn, error), ask byte, count int) ([]net.Conn, error) {
	var conns []net.Conn
	for len(conns) < count {
		c, err := p.openConnection(dial, ask)
		if err == nil {
			conns = append(conns, c)
			continue
		}
		select {
		case <-time.After(retryPause):
		case <-ctx.Done():
			for _, c := range conns {
				_ = c.Close()
			}
			return nil, fmt.Errorf("connecting: %w", err)
		}
	}
	return conns, nil
}

func (p Plan) openConnection(dial func() (net.Conn, error), ask byte) (net.Conn, error) {
	c, err := dial()
	if err != nil {
		return nil, err
	}
	if _, err := c.Write(append([]byte(p.Token), ask)); err != nil {
		_ = c.Close()
		return nil, err
	}
	return c, nil
}
