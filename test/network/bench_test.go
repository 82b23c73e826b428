// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package network

import (
	"encoding/json"
	"testing"
)

// checkBenchmark wants a benchmark to have all figures, of tunnels and of paths between two nodes of each cluster, and to leave nothing.
func checkBenchmark(t *testing.T) {
	t.Helper()
	out, err := a.Liqoctl("bench", "--remote-kubeconfig", b.Kubeconfig, "--duration", "500ms", "--pods", "3", "--timeout", "12m", "-o", "json")
	t.Log(out)
	if err != nil {
		show(t)
		t.Fatal(err)
	}
	type times struct {
		Count                                     int
		P50Seconds, P90Seconds, P99Seconds, Ratio float64
	}
	var report struct {
		Paths []struct {
			Path       string
			From, To   struct{ Cluster, Node string }
			Throughput []struct {
				Streams              int
				BitsPerSecond, Ratio float64
				Bytes                int64
			}
			Latency times
		}
		Offloading []struct {
			Path, Cluster string
			times
		}
	}
	if err := json.Unmarshal([]byte(out), &report); err != nil {
		t.Fatal(err)
	}
	isWrong := func(v times, tunnel bool) bool {
		return v.Count == 0 || v.P50Seconds <= 0 || v.P50Seconds > v.P90Seconds || v.P90Seconds > v.P99Seconds || (v.Ratio > 0) != tunnel
	}
	found := map[string]int{}
	for _, p := range report.Paths {
		found[p.Path+" "+p.From.Cluster+" "+p.To.Cluster]++
		tunnel := p.Path == "Tunnel"
		if p.From.Node == p.To.Node && p.From.Cluster == p.To.Cluster || len(p.Throughput) != 2 || isWrong(p.Latency, tunnel) {
			t.Errorf("a path is %+v", p)
		}
		for i, s := range p.Throughput {
			if s.Streams != []int{1, 4}[i] || s.BitsPerSecond <= 0 || s.Bytes <= 0 || (s.Ratio > 0) != tunnel {
				t.Errorf("from %v to %v: %+v", p.From, p.To, s)
			}
		}
	}
	for _, o := range report.Offloading {
		found[o.Path+" "+o.Cluster]++
		if o.Count != 3 || isWrong(o.times, o.Path == "Offloaded") {
			t.Errorf("pods: %+v", o)
		}
	}
	for _, want := range []string{
		"Tunnel " + a.ID + " " + b.ID, "Tunnel " + b.ID + " " + a.ID, "Direct " + a.ID + " " + a.ID, "Direct " + b.ID + " " + b.ID, "Local " + b.ID, "Offloaded " + a.ID,
	} {
		if found[want] != 1 {
			t.Errorf("%d rows are %q", found[want], want)
		}
	}
	checkNothingRemains(t)
}
