// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

// Package reach tells who answers at an address, and answers itself: `liqoctl test network` has pods do both.
package reach

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
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
}

// Options bound how a question is asked.
type Options struct {
	// For is how long one target is asked until all have answered; 0 stands for 20 seconds.
	For time.Duration
	// Within is how long all of them may take; 0 for as long as ctx lasts.
	Within time.Duration
	// Each is how long one answer may take; 0 stands for 3 seconds.
	Each time.Duration
}

const (
	askedAtOnce = 16
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
		ctx, cancel = context.WithTimeout(ctx, o.Within)
		defer cancel()
	}
	// A connection that is kept would always lead to the same backend.
	asking := &http.Client{
		Transport: &http.Transport{DisableKeepAlives: true}, Timeout: o.Each,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	errs := make([]error, len(targets))
	slots := make(chan struct{}, askedAtOnce)
	var all sync.WaitGroup
	for i, t := range targets {
		slots <- struct{}{}
		all.Go(func() {
			defer func() { <-slots }()
			errs[i] = t.ask(ctx, asking, o.For)
		})
	}
	all.Wait()
	return errs
}

// ask asks until everybody has answered. A stranger is no reason to go on.
func (t Target) ask(ctx context.Context, asking *http.Client, limit time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	missing := map[string]bool{}
	for _, name := range t.Answers {
		missing[name] = true
	}
	var last error
	for len(missing) > 0 {
		name, err := answer(ctx, asking, t.At)
		pause := betweenAnswers
		switch {
		case err != nil:
			if last == nil || ctx.Err() == nil { // one that was cut off says nothing
				last = err
			}
			pause = betweenErrors
		case !slices.Contains(t.Answers, name):
			return fmt.Errorf("%q answers instead of %s", name, strings.Join(t.Answers, ", "))
		default:
			delete(missing, name)
			if len(missing) == 0 {
				return nil
			}
		}
		select {
		case <-ctx.Done():
			return unanswered(t, missing, last)
		case <-time.After(pause):
		}
	}
	return nil
}

func unanswered(t Target, missing map[string]bool, last error) error {
	if len(missing) == len(t.Answers) && last != nil {
		return last
	}
	silent := fmt.Errorf("no answer from %s", strings.Join(slices.Sorted(maps.Keys(missing)), ", "))
	if last == nil {
		return silent
	}
	return fmt.Errorf("%w; the last error is: %w", silent, last)
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
