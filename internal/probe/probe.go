// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

// Package probe tells who answers at an address, and answers itself: `liqoctl test network` has pods do both.
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

// A Target is an address, and who has to answer there.
type Target struct {
	// At is a host, or an address, with a port.
	At string `json:"at"`
	// Answers are names, each of which has to answer at least once, and nobody else.
	Answers []string `json:"answers"`
	// Times is how many answers there have to be at least, for somebody else to be found who answers by chance.
	Times int `json:"times,omitempty"`
}

// Options bound how a question is asked. Where several have to answer, there is more time.
type Options struct {
	// For is how long one target is asked until all have answered; 0 stands for 20 seconds.
	For time.Duration
	// Within is how long all of them may take; 0 for as long as ctx lasts. What nobody found out by then is ErrUntried.
	Within time.Duration
	// Each is how long one answer may take; 0 stands for 3 seconds.
	Each time.Duration
}

const (
	askedAtOnce = 16
	// oneAtOnce is how often one target is asked at once, that many who answer by chance be found, or many that do not answer.
	oneAtOnce = 8
	// byChance is for each of the n·ln(n) answers after which the last of n who answer by chance may be expected.
	byChance = 50 * time.Millisecond
	// betweenAnswers keeps a Service that has many backends, or one that never answers, from being asked all the time.
	betweenAnswers = 5 * time.Millisecond
	betweenErrors  = 250 * time.Millisecond
	longestName    = 1 << 10
)

// Serve answers with a name, until ctx ends.
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

// ErrUntried is what came of a target that there was no time for.
var ErrUntried = errors.New("not tried: the time was over")

// Ask asks all targets, some at once, and returns why each is not reached: nil where it is.
func Ask(ctx context.Context, targets []Target, o Options) []error {
	if o.For == 0 {
		o.For = 20 * time.Second
	}
	if o.Each == 0 {
		o.Each = 3 * time.Second
	}
	if o.Within > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, o.Within+longest(targets))
		defer cancel()
	}
	// A connection that is kept would always lead to the same backend.
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
			errs[i] = t.ask(ctx, asking, o.For+t.extra())
		})
	}
	all.Wait()
	return errs
}

// extra is the time that a target gets because several have to answer there.
func (t Target) extra() time.Duration {
	n := float64(max(len(t.Answers), 1))
	return time.Duration(n * math.Log(n) * float64(byChance))
}

func longest(targets []Target) (extra time.Duration) {
	for _, t := range targets {
		extra = max(extra, t.extra())
	}
	return extra
}

// ask asks until everybody has answered. A stranger is no reason to go on.
func (t Target) ask(ctx context.Context, asking *http.Client, limit time.Duration) error {
	within, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	q := &question{Target: t, missing: map[string]bool{}}
	for _, name := range t.Answers {
		q.missing[name] = true
	}
	var several sync.WaitGroup
	for range min(len(t.Answers), oneAtOnce) {
		several.Go(func() {
			defer cancel() // whoever ends leaves nothing to ask
			q.repeat(within, asking)
		})
	}
	several.Wait()
	return q.result(ctx.Err() != nil)
}

// question is what is known of a target so far.
type question struct {
	Target
	mu      sync.Mutex
	missing map[string]bool
	answers int
	// stranger is an answer of somebody else, last what went wrong last.
	stranger, last error
}

// repeat asks until there is nothing more to ask.
func (q *question) repeat(ctx context.Context, asking *http.Client) {
	for ctx.Err() == nil {
		name, err := answer(ctx, asking, q.At)
		if err != nil && ctx.Err() != nil { // one that was cut off says nothing
			return
		}
		if q.heard(name, err) {
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

// heard notes an answer, and says whether it leaves nothing to ask.
func (q *question) heard(name string, err error) bool {
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
	return q.done()
}

func (q *question) done() bool { return len(q.missing) == 0 && q.answers >= q.Times }

// result is what came of it, which may have been cut off.
func (q *question) result(cut bool) error {
	switch {
	case q.stranger != nil:
		return q.stranger
	case q.done():
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

// byName connects to any of the addresses of a host. A headless Service has those of all its backends, and what is always the first one is no
// chance: caches of name servers keep the order, and RFC 6724 makes one.
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

// answer is the name of whoever answers.
func answer(ctx context.Context, asking *http.Client, at string) (string, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+at+"/", http.NoBody)
	if err != nil {
		return "", err
	}
	resp, err := asking.Do(req)
	if err != nil {
		return "", plain(err)
	}
	defer resp.Body.Close()
	name, err := io.ReadAll(io.LimitReader(resp.Body, longestName))
	if err != nil {
		return "", plain(err)
	}
	if resp.StatusCode != http.StatusOK {
		return "", fmt.Errorf("the answer is %s", resp.Status)
	}
	return string(name), nil
}

// plain says an error of the network without the URL, which whoever reads it knows.
func plain(err error) error {
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
