// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package benchmark

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	_ "liqo.io/liqo/internal/testkit/repeatable"
)

func TestQuantile(t *testing.T) {
	values := []float64{5, 1, 3, 2, 4}
	for _, tc := range []struct {
		values  []float64
		q, want float64
	}{
		{values, 0, 1}, {values, 0.2, 1}, {values, 0.21, 2}, {values, 0.5, 3}, {values, 0.9, 5}, {values, 1, 5},
		{[]float64{7}, 0.5, 7}, {[]float64{7}, 0.99, 7}, {[]float64{1, 2}, 0.5, 1}, {[]float64{1, 2}, 0.51, 2},
	} {
		if got := Quantile(tc.values, tc.q); got != tc.want {
			t.Errorf("quantile %v of %v is %v, want %v", tc.q, tc.values, got, tc.want)
		}
	}
	if got := Quantile(nil, 0.5); !math.IsNaN(got) {
		t.Errorf("the quantile of no values is %v", got)
	}
}

// TestQuantileProperty compares with the definition.
func TestQuantileProperty(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		values := rapid.SliceOfN(rapid.Float64Range(0, 100), 1, 50).Draw(t, "values")
		q := rapid.Float64Range(0, 1).Draw(t, "q")
		got := Quantile(values, q)
		share := func(limit func(float64) bool) float64 {
			n := 0
			for _, v := range values {
				if limit(v) {
					n++
				}
			}
			return float64(n)
		}
		need := q * float64(len(values))
		if !slices.Contains(values, got) || share(func(v float64) bool { return v <= got }) < need || q > 0 && share(func(v float64) bool { return v < got }) >= need {
			t.Fatalf("quantile %v of %v is %v", q, values, got)
		}
	})
}

const token = "secret"

// serve starts a server until the end of the test, and returns its address.
func serve(t *testing.T) string {
	t.Helper()
	on := listen(t)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- Serve(ctx, on, token) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return on.Addr().String()
}

func listen(t *testing.T) net.Listener {
	t.Helper()
	on, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = on.Close() })
	return on
}

// answering is a server that does something else.
func answering(t *testing.T, do func(net.Conn)) string {
	t.Helper()
	on := listen(t)
	go func() {
		for {
			c, err := on.Accept()
			if err != nil {
				return
			}
			go do(c)
		}
	}()
	return on.Addr().String()
}

func TestMeasure(t *testing.T) {
	t.Parallel()
	gone := listen(t)
	_ = gone.Close()
	ends := answering(t, func(c net.Conn) { _ = c.Close() })
	silent := answering(t, func(net.Conn) {})
	p := Plan{Token: token, Limits: Limits{Time: 100 * time.Millisecond}, Targets: []string{serve(t), gone.Addr().String(), ends, silent, serve(t)}, Streams: []int{1, 4}, RoundTrips: true}
	if got, want := p.Time(), 15*(WarmUp+100*time.Millisecond); got != want {
		t.Errorf("it takes %v, want %v", got, want)
	}
	results := Measure(t.Context(), p)
	for _, i := range []int{0, 4} {
		r := results[i]
		if r.Error != "" || len(r.Rates) != 2 || r.Rates[0].BitsPerSecond <= 0 || r.Rates[1].Bytes <= 0 || r.RoundTrips == nil || r.RoundTrips.Count == 0 ||
			r.RoundTrips.P50 <= 0 || r.RoundTrips.P50 > r.RoundTrips.P90 || r.RoundTrips.P90 > r.RoundTrips.P99 {
			t.Errorf("target %d: %+v", i, r)
		}
	}
	for i, want := range map[int]string{1: "connecting: ", 2: "receiving: ", 3: "receiving: no data arrives"} {
		if r := results[i]; !strings.Contains(r.Error, want) || r.Rates != nil || r.RoundTrips != nil {
			t.Errorf("target %d: %+v, want %q", i, r, want)
		}
	}
}

func TestMeasureLimit(t *testing.T) {
	t.Parallel()
	const most = 1 << 20
	p := Plan{Token: token, Limits: Limits{Time: time.Hour, Bytes: most}, Targets: []string{serve(t)}, Streams: []int{2}}
	r := Measure(t.Context(), p)[0]
	if r.Error != "" || r.Rates[0].Bytes < most || r.Rates[0].Bytes > most+2*block || r.Rates[0].BitsPerSecond <= 0 {
		t.Errorf("%+v", r)
	}
}

func TestMeasureInterrupted(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	began := answering(t, func(c net.Conn) {
		cancel()
		Send(c)
	})
	for _, p := range []Plan{{Streams: []int{1}}, {RoundTrips: true}} {
		p.Targets, p.Limits.Time = []string{began}, time.Hour
		if r := Measure(ctx, p)[0]; r.Error == "" || r.Rates != nil {
			t.Errorf("%+v", r)
		}
	}
}

// TestServeStrangers has a server give nothing to a client without the token.
func TestServeStrangers(t *testing.T) {
	t.Parallel()
	at := serve(t)
	for _, header := range []string{"", "wrong!s", token + "x", strings.ToUpper(token) + "s"} {
		c, err := net.Dial("tcp", at)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = fmt.Fprint(c, header)
		_ = c.(*net.TCPConn).CloseWrite()
		if n, err := c.Read(make([]byte, 1)); n > 0 || err == nil {
			t.Errorf("%q is answered", header)
		}
		_ = c.Close()
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	on := listen(t)
	if err := Serve(ended, on, token); err != nil {
		t.Error(err)
	}
	if err := Serve(t.Context(), on, token); !errors.Is(err, net.ErrClosed) {
		t.Errorf("without a listener: %v", err)
	}
}
