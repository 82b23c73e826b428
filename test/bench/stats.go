// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"math"
	"slices"
	"time"
)

// quantile is the smallest value that at least a share q of all values do not exceed.
func quantile(values []float64, q float64) float64 {
	if len(values) == 0 {
		return math.NaN()
	}
	sorted := slices.Sorted(slices.Values(values))
	return sorted[max(int(math.Ceil(q*float64(len(sorted))))-1, 0)]
}

func median(values []float64) float64 { return quantile(values, 0.5) }

// spread is how a set of durations is reported, in seconds.
type spread struct {
	P50 float64 `json:"p50"`
	P95 float64 `json:"p95"`
	Max float64 `json:"max"`
}

func spreadOf(durations []time.Duration) spread {
	seconds := make([]float64, len(durations))
	for i, d := range durations {
		seconds[i] = d.Seconds()
	}
	return spread{quantile(seconds, 0.5), quantile(seconds, 0.95), quantile(seconds, 1)}
}

// minus is what was added to each key between two moments.
func minus(after, before map[string]float64) map[string]float64 {
	out := map[string]float64{}
	for key, value := range after {
		out[key] = value - before[key]
	}
	return out
}

func sum(values map[string]float64) float64 {
	total := 0.0
	for _, v := range values {
		total += v
	}
	return total
}
