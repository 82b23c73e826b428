// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

// Package benchmark measures connections: what they receive in a time, and how long round trips take. `liqoctl bench` runs its server
// and its client in pods.
package benchmark

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// WarmUp is the time before each measurement, in which connections become as fast as they will be.
	WarmUp = 500 * time.Millisecond
	// block is the size of one write or read.
	block = 128 << 10
	// request is the size of a request whose round trip is measured.
	request = 64
)

// Limits bound one measurement.
type Limits struct {
	// Time is that after the warm-up.
	Time time.Duration
	// Bytes ends a measurement of a rate once that much has arrived; 0 is no limit.
	Bytes int64
}

// Rate is what connections received together.
type Rate struct {
	BitsPerSecond float64 `json:"bitsPerSecond"`
	// Bytes is all that arrived, in the warm-up, too.
	Bytes int64 `json:"bytes"`
}

// Send writes to a connection until it fails or is closed.
func Send(to io.Writer) {
	data := make([]byte, block)
	for {
		if _, err := to.Write(data); err != nil {
			return
		}
	}
}

// Receive measures what arrives on connections, whose other ends send, and closes them.
func Receive(ctx context.Context, conns []net.Conn, l Limits) (Rate, error) {
	r := &receiver{limit: l.Bytes, enough: make(chan struct{})}
	var reading sync.WaitGroup
	for _, c := range conns {
		reading.Go(func() { r.readAll(c) })
	}
	start, before := time.Now(), int64(0)
	if r.waitFor(ctx, WarmUp) {
		start, before = time.Now(), r.received.Load()
		r.waitFor(ctx, l.Time)
	}
	total, took := r.received.Load(), time.Since(start)
	r.over.Store(true)
	for _, c := range conns {
		_ = c.Close()
	}
	reading.Wait()
	switch {
	case ctx.Err() != nil:
		return Rate{}, ctx.Err()
	case r.err != nil:
		return Rate{}, fmt.Errorf("receiving: %w", r.err)
	case total == before:
		return Rate{}, errors.New("receiving: no data arrives, although the connection was made")
	}
	return Rate{BitsPerSecond: float64(total-before) * 8 / took.Seconds(), Bytes: total}, nil
}

// receiver counts what all connections of a measurement receive.
type receiver struct {
	limit    int64
	received atomic.Int64
	over     atomic.Bool
	ends     sync.Once
	// enough is closed at the limit, or at the first error, which is err.
	enough chan struct{}
	err    error
}

func (r *receiver) readAll(c net.Conn) {
	data := make([]byte, block)
	for {
		n, err := c.Read(data)
		total := r.received.Add(int64(n))
		switch {
		case r.over.Load():
			return
		case err != nil:
			r.ends.Do(func() { r.err = err; close(r.enough) })
			return
		case r.limit > 0 && total >= r.limit:
			r.ends.Do(func() { close(r.enough) })
			return
		}
	}
}

// waitFor waits for a time, and reports whether nothing ended the measurement before.
func (r *receiver) waitFor(ctx context.Context, long time.Duration) bool {
	timer := time.NewTimer(long)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-r.enough:
	case <-ctx.Done():
	}
	return false
}

// Echo returns what a connection receives.
func Echo(c net.Conn) { _, _ = io.Copy(c, c) }

// RoundTrips returns the times, in seconds, of small requests on a connection whose other end echoes, one after the other.
func RoundTrips(c net.Conn, long time.Duration) ([]float64, error) {
	if err := c.SetDeadline(time.Now().Add(WarmUp + long + answerTimeout)); err != nil {
		return nil, err
	}
	var took []float64
	data := make([]byte, request)
	start := time.Now()
	for time.Since(start) < WarmUp+long {
		requestedAt := time.Now()
		if _, err := c.Write(data); err != nil {
			return nil, fmt.Errorf("sending a request: %w", err)
		}
		if _, err := io.ReadFull(c, data); err != nil {
			return nil, fmt.Errorf("waiting for the answer to a request: %w", err)
		}
		if requestedAt.Sub(start) > WarmUp {
			took = append(took, time.Since(requestedAt).Seconds())
		}
	}
	if len(took) == 0 {
		return nil, errors.New("waiting for the answer to a request: no answer in time")
	}
	return took, nil
}

// Quantile returns the smallest value that at least a share q of all values do not exceed, NaN without values.
func Quantile(values []float64, q float64) float64 {
	if len(values) == 0 {
		return math.NaN()
	}
	sorted := slices.Sorted(slices.Values(values))
	return sorted[max(int(math.Ceil(q*float64(len(sorted))))-1, 0)]
}
