// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package network

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"liqo.io/liqo/internal/benchmark"
)

func TestFormatUnits(t *testing.T) {
	for want, got := range map[string]string{
		"0 bit/s": formatRate(0), "999 bit/s": formatRate(999), "1 kbit/s": formatRate(999.6), "12.3 kbit/s": formatRate(12_345), "812 Mbit/s": formatRate(812.4e6),
		"1 Gbit/s": formatRate(999.7e6), "1.23 Gbit/s": formatRate(1.234e9), "100 Gbit/s": formatRate(100e9), "1200 Gbit/s": formatRate(1.2e12),
		"0.5 µs": formatSeconds(0.5e-6), "410 µs": formatSeconds(410e-6), "1.5 ms": formatSeconds(0.0015), "2.35 s": formatSeconds(2.345), "1235 s": formatSeconds(1234.6),
	} {
		if got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

var (
	romeNode1, romeNode2   = benchPlace{"rome", "rome-1"}, benchPlace{"rome", "rome-2"}
	milanNode1, milanNode2 = benchPlace{"milan", "milan-1"}, benchPlace{"milan", "milan-2"}
)

// measuredAs returns the result of a target with two rates in Mbit/s and round trips in µs.
func measuredAs(one, four, p50 float64) benchmark.Measured {
	return benchmark.Measured{
		Rates:      []benchmark.Rate{{BitsPerSecond: one * 1e6, Bytes: 10}, {BitsPerSecond: four * 1e6, Bytes: 40}},
		RoundTrips: &benchmark.Spread{Count: 100, P50: p50 * 1e-6, P90: 2 * p50 * 1e-6, P99: 4 * p50 * 1e-6},
	}
}

func fullReport() *benchReport {
	streams := []int{1, 4}
	return &benchReport{
		Paths: []benchPath{
			newBenchPath(pathTunnel, milanNode1, romeNode1, streams, measuredAs(600, 900, 300)),
			newBenchPath(pathDirect, romeNode2, romeNode1, streams, measuredAs(2000, 3000, 100)),
			newBenchPath(pathTunnel, romeNode1, milanNode1, streams, measuredAs(500, 1000, 330)),
			newBenchPath(pathDirect, milanNode2, milanNode1, streams, measuredAs(1000, 4000, 150)),
		},
		Offloading: []benchOffload{
			{pathLocal, "milan", benchTimes{Spread: benchmark.Spread{Count: 10, P50: 1, P90: 1.5, P99: 2}}},
			{pathOffloaded, "rome", benchTimes{Spread: benchmark.Spread{Count: 10, P50: 1.25, P90: 2, P99: 3}}},
		},
	}
}

func TestBenchTable(t *testing.T) {
	partial := &benchReport{Paths: []benchPath{
		newBenchPath(pathTunnel, milanNode1, romeNode1, []int{1, 4}, benchmark.Measured{Rates: []benchmark.Rate{{BitsPerSecond: 5e6}}, Error: "EOF"}),
		newBenchPath(pathDirect, romeNode1, romeNode1, []int{1, 4}, measuredAs(10, 20, 100)),
	}}
	throughput, latency := fullReport(), fullReport()
	throughput.Offloading, latency.Offloading = nil, nil
	for i := range throughput.Paths {
		throughput.Paths[i].Latency, latency.Paths[i].Throughput = nil, nil
	}
	for name, tc := range map[string]struct {
		report *benchReport
		want   string
	}{
		"nothing": {&benchReport{}, ""},
		"all": {fullReport(), `THROUGHPUT       FROM            TO              1 STREAM              4 STREAMS
tunnel           milan/milan-1   rome/rome-1     600 Mbit/s (0.60 ×)   900 Mbit/s (0.30 ×)
without tunnel   rome/rome-2     rome/rome-1     2 Gbit/s              3 Gbit/s
tunnel           rome/rome-1     milan/milan-1   500 Mbit/s (0.50 ×)   1 Gbit/s (0.33 ×)
without tunnel   milan/milan-2   milan/milan-1   1 Gbit/s              4 Gbit/s

LATENCY          FROM            TO              P50               P90      P99
tunnel           milan/milan-1   rome/rome-1     300 µs (2.00 ×)   600 µs   1.2 ms
without tunnel   rome/rome-2     rome/rome-1     100 µs            200 µs   400 µs
tunnel           rome/rome-1     milan/milan-1   330 µs (2.20 ×)   660 µs   1.32 ms
without tunnel   milan/milan-2   milan/milan-1   150 µs            300 µs   600 µs

PODS            READY IN   NUMBER   P50               P90     P99
created there   milan      10       1 s               1.5 s   2 s
offloaded       rome       10       1.25 s (1.25 ×)   2 s     3 s

`},
		"throughput only": {throughput, `THROUGHPUT       FROM            TO              1 STREAM              4 STREAMS
tunnel           milan/milan-1   rome/rome-1     600 Mbit/s (0.60 ×)   900 Mbit/s (0.30 ×)
without tunnel   rome/rome-2     rome/rome-1     2 Gbit/s              3 Gbit/s
tunnel           rome/rome-1     milan/milan-1   500 Mbit/s (0.50 ×)   1 Gbit/s (0.33 ×)
without tunnel   milan/milan-2   milan/milan-1   1 Gbit/s              4 Gbit/s

`},
		"latency only": {latency, `LATENCY          FROM            TO              P50               P90      P99
tunnel           milan/milan-1   rome/rome-1     300 µs (2.00 ×)   600 µs   1.2 ms
without tunnel   rome/rome-2     rome/rome-1     100 µs            200 µs   400 µs
tunnel           rome/rome-1     milan/milan-1   330 µs (2.20 ×)   660 µs   1.32 ms
without tunnel   milan/milan-2   milan/milan-1   150 µs            300 µs   600 µs

`},
		"a part failed": {partial, `THROUGHPUT       FROM            TO            1 STREAM            4 STREAMS
tunnel           milan/milan-1   rome/rome-1   5 Mbit/s (0.50 ×)   -
without tunnel   rome/rome-1     rome/rome-1   10 Mbit/s           20 Mbit/s

LATENCY          FROM            TO            P50      P90      P99
tunnel           milan/milan-1   rome/rome-1   -        -        -
without tunnel   rome/rome-1     rome/rome-1   100 µs   200 µs   400 µs

`},
	} {
		var out strings.Builder
		tc.report.setRatios()
		if err := tc.report.printTables(&out); err != nil {
			t.Error(err)
		}
		if diff := cmp.Diff(tc.want, out.String()); diff != "" {
			t.Errorf("%s: -want +got:\n%s", name, diff)
		}
	}
}

// TestBenchRatios has no ratio without anything to compare with.
func TestBenchRatios(t *testing.T) {
	r := &benchReport{Paths: fullReport().Paths[:1], Offloading: fullReport().Offloading[1:]}
	r.setRatios()
	if p, o := r.Paths[0], r.Offloading[0]; p.Throughput[0].Ratio != 0 || p.Latency.Ratio != 0 || o.Ratio != 0 {
		t.Errorf("%+v %+v", p, o)
	}
}

func TestBenchDocument(t *testing.T) {
	r := fullReport()
	r.Paths, r.Offloading = r.Paths[:2], r.Offloading[1:]
	r.Paths[1].Throughput, r.Paths[1].Latency, r.Paths[1].Error = nil, nil, "connecting: refused"
	r.setRatios()
	r.Paths[0].Latency.Ratio = 2
	got, err := json.MarshalIndent(r, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	const want = `{
 "paths": [
  {
   "path": "Tunnel",
   "from": {
    "cluster": "milan",
    "node": "milan-1"
   },
   "to": {
    "cluster": "rome",
    "node": "rome-1"
   },
   "throughput": [
    {
     "streams": 1,
     "bitsPerSecond": 600000000,
     "bytes": 10
    },
    {
     "streams": 4,
     "bitsPerSecond": 900000000,
     "bytes": 40
    }
   ],
   "latency": {
    "count": 100,
    "p50Seconds": 0.0003,
    "p90Seconds": 0.0006,
    "p99Seconds": 0.0012,
    "ratio": 2
   }
  },
  {
   "path": "Direct",
   "from": {
    "cluster": "rome",
    "node": "rome-2"
   },
   "to": {
    "cluster": "rome",
    "node": "rome-1"
   },
   "error": "connecting: refused"
  }
 ],
 "offloading": [
  {
   "path": "Offloaded",
   "cluster": "rome",
   "count": 10,
   "p50Seconds": 1.25,
   "p90Seconds": 2,
   "p99Seconds": 3
  }
 ]
}`
	if diff := cmp.Diff(want, string(got)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}
