// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package benchmark

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
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

// pause is how long a slowConn takes to write.
const pause = time.Millisecond

// slowConn is a connection of a server in a bubble of synctest, whose clock stands still while data moves.
type slowConn struct{ net.Conn }

func (c slowConn) Write(data []byte) (int, error) {
	time.Sleep(pause)
	return c.Conn.Write(data)
}

var errRefused = errors.New("refused")

// measureSlowly carries out a plan with a server at "server", one at "late" that refuses connections for a while, and others that do
// something else.
func measureSlowly(t *testing.T, p Plan) []Measured {
	t.Helper()
	started := time.Now()
	p.Token = token
	var serving sync.WaitGroup
	defer serving.Wait()
	return p.measureTargets(t.Context(), func(target string) (net.Conn, error) {
		if target == "gone" || target == "late" && time.Since(started) < connectTimeout/2 {
			return nil, errRefused
		}
		ours, theirs := net.Pipe()
		serving.Go(func() {
			header := make([]byte, len(token)+1)
			switch target {
			case "ends":
				_, _ = io.ReadFull(theirs, header)
				_ = theirs.Close()
			case "silent":
				_, _ = io.ReadFull(theirs, header)
			case "stalls":
				_, _ = io.ReadFull(theirs, header)
				_, _ = theirs.Write(header)
			default:
				serveConnection(t.Context(), slowConn{theirs}, token)
			}
		})
		return ours, nil
	})
}

func TestMeasure(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const long = time.Second
		p := Plan{Limits: Limits{Time: long}, Targets: []string{"server", "late", "ends", "silent", "gone", "server"}, Streams: []int{1, 4}, RoundTrips: true}
		if got, want := p.Time(), 18*(WarmUp+long); got != want {
			t.Errorf("it takes %v, want %v", got, want)
		}
		const rate = block * 8 / 1e-3
		near := func(got, want float64) bool { return got > 0.99*want && got < 1.01*want }
		results := measureSlowly(t, p)
		for _, i := range []int{0, 1, 5} {
			r := results[i]
			if r.Error != "" || len(r.Rates) != 2 || !near(r.Rates[0].BitsPerSecond, rate) || !near(r.Rates[1].BitsPerSecond, 4*rate) ||
				!near(float64(r.Rates[0].Bytes), 1500*block) || r.RoundTrips == nil || *r.RoundTrips != (Spread{Count: 999, P50: 1e-3, P90: 1e-3, P99: 1e-3}) {
				t.Errorf("target %d: %+v %+v", i, r, r.RoundTrips)
			}
		}
		for i, want := range map[int]string{2: "receiving: EOF", 3: "receiving: no data arrives, although the connection was made", 4: "connecting: refused"} {
			if r := results[i]; r.Error != want || r.Rates != nil || r.RoundTrips != nil {
				t.Errorf("target %d: %+v, want %q", i, r, want)
			}
		}
	})
}

// TestMeasureLimit has a limit end the warm-up, and then the measurement.
func TestMeasureLimit(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const most = 1 << 20
		r := measureSlowly(t, Plan{Limits: Limits{Time: time.Hour, Bytes: most}, Targets: []string{"server"}, Streams: []int{2}})[0]
		if r.Error != "" || r.Rates[0].Bytes < 2*most || r.Rates[0].Bytes > 2*most+4*block || r.Rates[0].BitsPerSecond < 2*block*8/1e-3 {
			t.Errorf("%+v", r)
		}
	})
}

// TestMeasureStall has all data come in the warm-up.
func TestMeasureStall(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := measureSlowly(t, Plan{Limits: Limits{Time: 500 * time.Millisecond}, Targets: []string{"stalls"}, Streams: []int{1}})[0]
		const sent = int64(len(token) + 1)
		if r.Error != "" || r.Rates[0] != (Rate{BitsPerSecond: float64(sent) * 8, Bytes: sent}) {
			t.Errorf("%+v", r)
		}
	})
}

func TestMeasureInterrupted(t *testing.T) {
	t.Parallel()
	for name, p := range map[string]Plan{"rate": {Streams: []int{1}}, "round_trips": {RoundTrips: true}} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			began := answering(t, func(c net.Conn) {
				_, _ = io.ReadFull(c, make([]byte, 1)) // what it is asked for
				cancel()
				Send(c)
			})
			p.Targets, p.Limits.Time = []string{began}, time.Hour
			if r := Measure(ctx, p)[0]; r.Error == "" || strings.HasPrefix(r.Error, "connecting: ") || r.Rates != nil || r.RoundTrips != nil {
				t.Errorf("%+v", r)
			}
		})
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
