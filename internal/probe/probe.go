// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

// Package probe is an HTTP client and server that identify the backends behind an address: `liqoctl test network` runs both in pods.
package probe

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"math/rand/v2"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"
)

// Target is an address with the names of the expected servers.
type Target struct {
	// At is a host name or address with a port.
	At string `json:"at"`
	// Answers are names: each server must answer at least once, and no further server may answer.
	Answers []string `json:"answers"`
	// Times is the minimum number of answers, to find an unexpected server behind a load balancer.
	Times int `json:"times,omitempty"`
}

// Options limit the time of probes. Targets with several expected servers get more time.
type Options struct {
	// For is the time limit per target; 0 is 20 seconds.
	For time.Duration
	// Within is the time limit for all targets; 0 is no limit other than ctx. Targets without a result by then get ErrUntried.
	Within time.Duration
	// Each is the time-out of one request; 0 is 3 seconds.
	Each time.Duration
}

const (
	askedAtOnce = 16
	// oneAtOnce is the number of concurrent requests to a target, to find many random backends in time, silent backends included.
	oneAtOnce = 8
	// byChance is the time for each of the n·ln(n) answers expected until the last of n randomly chosen servers has answered.
	byChance = 50 * time.Millisecond
	// betweenAnswers and betweenErrors limit the rate of requests to a target.
	betweenAnswers = 5 * time.Millisecond
	betweenErrors  = 250 * time.Millisecond
	longestName    = 1 << 10
)

// Serve answers requests with a name until ctx ends.
func Serve(ctx context.Context, on net.Listener, name string) error {
	server := &http.Server{
		Handler:           http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, name) }),
		ReadHeaderTimeout: 10 * time.Second,
	}
	defer context.AfterFunc(ctx, func() { _ = server.Close() })()
	if err := server.Serve(on); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("answering: %w", err)
	}
	return nil
}

// ErrUntried is the result of a target for lack of time.
var ErrUntried = errors.New("not tried: out of time")

// Ask probes all targets, some concurrently, and returns an error per target: nil if reached.
func Ask(ctx context.Context, targets []Target, o Options) []error {
	if o.For == 0 {
		o.For = 20 * time.Second
	}
	if o.Each == 0 {
		o.Each = 3 * time.Second
	}
	if o.Within > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, o.Within+longestExtra(targets))
		defer cancel()
	}
	// A kept-alive connection would always reach the same backend.
	asking := &http.Client{
		Transport: &http.Transport{DisableKeepAlives: true, DialContext: byName(net.DefaultResolver.LookupNetIP)}, Timeout: o.Each,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	errs := make([]error, len(targets))
	slots := make(chan struct{}, askedAtOnce)
	var all sync.WaitGroup
	for i, t := range targets {
		slots <- struct{}{}
		all.Go(func() {
			defer func() { <-slots }()
			errs[i] = t.probeTarget(ctx, asking, o.For+t.extraTime())
		})
	}
	all.Wait()
	return errs
}

// extraTime returns the additional time of a target for several expected servers.
func (t Target) extraTime() time.Duration {
	n := float64(max(len(t.Answers), 1))
	return time.Duration(n * math.Log(n) * float64(byChance))
}

func longestExtra(targets []Target) (extra time.Duration) {
	for _, t := range targets {
		extra = max(extra, t.extraTime())
	}
	return extra
}

// probeTarget sends requests until all expected servers have answered. An answer of an unexpected server ends the probe.
func (t Target) probeTarget(ctx context.Context, asking *http.Client, limit time.Duration) error {
	within, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	q := &question{Target: t, missing: map[string]bool{}}
	for _, name := range t.Answers {
		q.missing[name] = true
	}
	var several sync.WaitGroup
	for range min(len(t.Answers), oneAtOnce) {
		several.Go(func() {
			defer cancel() // the first result ends all concurrent requests
			q.repeatRequests(within, asking)
		})
	}
	several.Wait()
	return q.resultError(ctx.Err() != nil)
}

// question is the progress of a target.
type question struct {
	Target
	mu      sync.Mutex
	missing map[string]bool
	answers int
	// stranger is the error of an unexpected server's answer, last the most recent error.
	stranger, last error
}

// repeatRequests sends requests until the probe is complete.
func (q *question) repeatRequests(ctx context.Context, asking *http.Client) {
	for ctx.Err() == nil {
		name, err := requestAnswer(ctx, asking, q.At)
		if err != nil && ctx.Err() != nil { // a cancelled request has no meaning
			return
		}
		if q.recordAnswer(name, err) {
			return
		}
		pause := betweenAnswers
		if err != nil {
			pause = betweenErrors
		}
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		}
	}
}

// recordAnswer records an answer and reports whether the probe is complete.
func (q *question) recordAnswer(name string, err error) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	switch {
	case err != nil:
		q.last = err
	case !slices.Contains(q.Answers, name):
		q.stranger = fmt.Errorf("%q answers instead of %s", name, strings.Join(q.Answers, ", "))
		return true
	default:
		q.answers++
		delete(q.missing, name)
	}
	return q.isComplete()
}

func (q *question) isComplete() bool { return len(q.missing) == 0 && q.answers >= q.Times }

// resultError returns the error of the target; cut is true if the time ended first.
func (q *question) resultError(cut bool) error {
	switch {
	case q.stranger != nil:
		return q.stranger
	case q.isComplete():
		return nil
	case cut && q.last == nil:
		return ErrUntried
	case q.answers == 0 && q.last != nil:
		return q.last
	}
	silent := fmt.Errorf("no answer from %s", strings.Join(slices.Sorted(maps.Keys(q.missing)), ", "))
	if len(q.missing) == 0 {
		silent = fmt.Errorf("only %d answers of %d", q.answers, q.Times)
	}
	if q.last == nil {
		return silent
	}
	return fmt.Errorf("%w; the last error is: %w", silent, q.last)
}

// byName returns a dialer for a random address of a host. A headless Service resolves to the addresses of all its backends, and dialling the first is
// not random: caches of name servers keep the order, and RFC 6724 imposes an order.
func byName(lookup func(ctx context.Context, network, host string) ([]netip.Addr, error)) func(ctx context.Context, network, address string) (net.Conn, error) {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		host, port, err := net.SplitHostPort(address)
		if err != nil {
			return nil, err
		}
		addrs, err := lookup(ctx, "ip", host)
		if err != nil {
			return nil, err
		}
		if len(addrs) > 0 {
			host = addrs[rand.IntN(len(addrs))].Unmap().String()
		}
		var d net.Dialer
		return d.DialContext(ctx, network, net.JoinHostPort(host, port))
	}
}

// requestAnswer returns the name of the answering server.
func requestAnswer(ctx context.Context, asking *http.Client, at string) (string, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+at+"/", http.NoBody)
	if err != nil {
		return "", err
	}
	resp, err := asking.Do(req)
	if err != nil {
		return "", plainError(err)
	}
	defer resp.Body.Close()
	name, err := io.ReadAll(io.LimitReader(resp.Body, longestName))
	if err != nil {
		return "", plainError(err)
	}
	if resp.StatusCode != http.StatusOK {
		return "", fmt.Errorf("the answer is %s", resp.Status)
	}
	return string(name), nil
}

// plainError returns a network error without the URL, since the reader knows the URL.
func plainError(err error) error {
	if timeout, ok := errors.AsType[net.Error](err); ok && timeout.Timeout() {
		return errSilent
	}
	if dns, ok := errors.AsType[*net.DNSError](err); ok {
		return dns
	}
	if op, ok := errors.AsType[*net.OpError](err); ok {
		return op.Err
	}
	return err
}

var errSilent = errors.New("no answer in time")
