// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

// Package benchmark measures connections: received bytes in a time, and round-trip times. `liqoctl bench` runs the server and the client of this
// package in pods.
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
	// WarmUp is the time before each measurement. In this time, connections reach their full speed.
	WarmUp = 500 * time.Millisecond
	// block is the size of one write or read.
	block = 128 << 10
	// request is the size of a request whose round trip is measured.
	request = 64
)

// Limits bound one measurement.
type Limits struct {
	// Time is the time after the warm-up.
	Time time.Duration
	// Bytes ends a measurement of a rate once this many bytes have arrived after the warm-up, and the warm-up itself; 0 is no limit.
	Bytes int64
}

// Rate is the sum of the received data of all connections.
type Rate struct {
	BitsPerSecond float64 `json:"bitsPerSecond"`
	// Bytes are all received bytes, including the warm-up.
	Bytes int64 `json:"bytes"`
}

// Send writes to a connection until an error or the end of the connection.
func Send(to io.Writer) {
	data := make([]byte, block)
	for {
		if _, err := to.Write(data); err != nil {
			return
		}
	}
}

// Receive measures the bytes received on connections to senders, and closes the connections. The warm-up ends early, too, when the limit has arrived.
func Receive(ctx context.Context, conns []net.Conn, l Limits) (Rate, error) {
	r := &receiver{enough: make(chan struct{}, 1), failed: make(chan error, 1)}
	var reading sync.WaitGroup
	for _, c := range conns {
		reading.Go(func() { r.readAll(c) })
	}
	began := time.Now()
	err := r.waitFor(ctx, WarmUp, l.Bytes)
	start, before := time.Now(), r.received.Load()
	if err == nil {
		err = r.waitFor(ctx, l.Time, l.Bytes)
	}
	total, ended := r.received.Load(), time.Now()
	for _, c := range conns {
		_ = c.Close()
	}
	reading.Wait()
	switch {
	case err != nil:
		return Rate{}, err
	case total == 0:
		return Rate{}, errors.New("receiving: no data arrives, although the connection was made")
	case total == before: // a stall: the warm-up has all data
		start, before = began, 0
	}
	return Rate{BitsPerSecond: float64(total-before) * 8 / ended.Sub(start).Seconds(), Bytes: total}, nil
}

// receiver counts the received bytes of all connections of a measurement.
type receiver struct {
	received atomic.Int64
	// limit is the count that ends waitFor, 0 for none.
	limit atomic.Int64
	// enough has a value after the limit, failed the first error.
	enough chan struct{}
	failed chan error
}

func (r *receiver) readAll(c net.Conn) {
	data := make([]byte, block)
	for {
		n, err := c.Read(data)
		total := r.received.Add(int64(n))
		if err != nil {
			select {
			case r.failed <- err:
			default:
			}
			return
		}
		if limit := r.limit.Load(); limit > 0 && total >= limit {
			select {
			case r.enough <- struct{}{}:
			default:
			}
		}
	}
}

// waitFor waits for a time or, if most is not 0, until as many further bytes have arrived. It returns why connections cannot be measured.
func (r *receiver) waitFor(ctx context.Context, long time.Duration, most int64) error {
	if most > 0 {
		r.limit.Store(r.received.Load() + most)
	}
	timer := time.NewTimer(long)
	defer timer.Stop()
	for {
		select {
		case <-timer.C:
			return ctx.Err()
		case <-ctx.Done():
			return ctx.Err()
		case err := <-r.failed:
			return fmt.Errorf("receiving: %w", err)
		case <-r.enough:
			if r.received.Load() >= r.limit.Load() { // else the value is of the wait before
				return nil
			}
		}
	}
}

// Echo sends the received data of a connection back.
func Echo(c net.Conn) { _, _ = io.Copy(c, c) }

// RoundTrips returns the times, in seconds, of small requests on a connection to an echo server, one after another.
func RoundTrips(c net.Conn, long time.Duration) ([]float64, error) {
	if err := c.SetDeadline(time.Now().Add(WarmUp + long + answerTimeout)); err != nil {
		return nil, err
	}
	var took []float64
	data := make([]byte, request)
	start := time.Now()
	for len(took) == 0 || time.Since(start) < WarmUp+long {
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
