// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package main

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
