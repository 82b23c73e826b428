// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package network

import (
	"fmt"
	"io"
	"text/tabwriter"

	"liqo.io/liqo/internal/benchmark"
)

// Values of benchPath.Path and benchOffload.Path.
const (
	// pathTunnel is between a node of the consumer and a node of the provider.
	pathTunnel = "Tunnel"
	// pathDirect is between two nodes of the same cluster, or between pods of a single node.
	pathDirect = "Direct"
	// pathOffloaded has pods that the consumer offloads to the provider, pathLocal pods created in the provider.
	pathOffloaded = "Offloaded"
	pathLocal     = "Local"
)

// benchReport is the result of "liqoctl bench". Ratios are to what the nodes do without Liqo: to the worse of the two direct paths, or to
// the pods that are created in the provider.
type benchReport struct {
	Paths      []benchPath    `json:"paths"`
	Offloading []benchOffload `json:"offloading"`
}

// benchPlace is a node of a cluster.
type benchPlace struct {
	Cluster string `json:"cluster"`
	Node    string `json:"node"`
}

// String returns the text of the value.
func (p benchPlace) String() string { return p.Cluster + "/" + p.Node }

// benchPath is the measurement between pods of two nodes. Data goes from From to To.
type benchPath struct {
	Path       string            `json:"path"`
	From       benchPlace        `json:"from"`
	To         benchPlace        `json:"to"`
	Throughput []benchThroughput `json:"throughput,omitempty"`
	Latency    *benchTimes       `json:"latency,omitempty"`
	// Error is why a measurement is missing.
	Error string `json:"error,omitempty"`
}

// benchThroughput is the sum of the throughput of some TCP connections.
type benchThroughput struct {
	Streams int `json:"streams"`
	benchmark.Rate
	Ratio float64 `json:"ratio,omitempty"`
}

// benchTimes are times, and the ratio of their medians.
type benchTimes struct {
	benchmark.Spread
	Ratio float64 `json:"ratio,omitempty"`
}

// benchOffload are the times from the creation of pods until they are Ready where they were created.
type benchOffload struct {
	Path    string `json:"path"`
	Cluster string `json:"cluster"`
	benchTimes
}

// newBenchPath returns the row of a target of a plan.
func newBenchPath(path string, from, to benchPlace, streams []int, m benchmark.Measured) benchPath {
	row := benchPath{Path: path, From: from, To: to, Error: m.Error}
	for i, rate := range m.Rates {
		row.Throughput = append(row.Throughput, benchThroughput{Streams: streams[i], Rate: rate})
	}
	if m.RoundTrips != nil {
		row.Latency = &benchTimes{Spread: *m.RoundTrips}
	}
	return row
}

// setRatios compares tunnels with direct paths, and offloaded pods with local pods.
func (r *benchReport) setRatios() {
	slowest, latest := map[int]float64{}, 0.0
	for _, p := range r.Paths {
		if p.Path != pathDirect {
			continue
		}
		for _, t := range p.Throughput {
			if known, ok := slowest[t.Streams]; !ok || t.BitsPerSecond < known {
				slowest[t.Streams] = t.BitsPerSecond
			}
		}
		if p.Latency != nil {
			latest = max(latest, p.Latency.P50)
		}
	}
	for _, p := range r.Paths {
		if p.Path != pathTunnel {
			continue
		}
		for i := range p.Throughput {
			p.Throughput[i].Ratio = newRatio(p.Throughput[i].BitsPerSecond, slowest[p.Throughput[i].Streams])
		}
		if p.Latency != nil {
			p.Latency.Ratio = newRatio(p.Latency.P50, latest)
		}
	}
	local := 0.0
	for _, o := range r.Offloading {
		if o.Path == pathLocal {
			local = o.P50
		}
	}
	for i := range r.Offloading {
		if o := &r.Offloading[i]; o.Path == pathOffloaded {
			o.Ratio = newRatio(o.P50, local)
		}
	}
}

// newRatio returns a ratio, 0 for none.
func newRatio(of, to float64) float64 {
	if to <= 0 {
		return 0
	}
	return of / to
}

// printTables prints a table for each kind of measurement.
func (r *benchReport) printTables(w io.Writer) error {
	table := tabwriter.NewWriter(w, 0, 0, 3, ' ', 0)
	if streams := r.streamCounts(); len(streams) > 0 {
		fmt.Fprint(table, "THROUGHPUT\tFROM\tTO")
		for _, n := range streams {
			if n == 1 {
				fmt.Fprint(table, "\t1 STREAM")
			} else {
				fmt.Fprintf(table, "\t%d STREAMS", n)
			}
		}
		fmt.Fprintln(table)
		for _, p := range r.Paths {
			fmt.Fprintf(table, "%s\t%s\t%s", pathTitles[p.Path], p.From, p.To)
			for i := range streams {
				cell := "-"
				if i < len(p.Throughput) {
					cell = formatRate(p.Throughput[i].BitsPerSecond) + formatRatio(p.Throughput[i].Ratio)
				}
				fmt.Fprintf(table, "\t%s", cell)
			}
			fmt.Fprintln(table)
		}
		fmt.Fprintln(table)
	}
	if r.hasLatency() {
		fmt.Fprintln(table, "LATENCY\tFROM\tTO\tP50\tP90\tP99")
		for _, p := range r.Paths {
			fmt.Fprintf(table, "%s\t%s\t%s\t%s\n", pathTitles[p.Path], p.From, p.To, p.Latency)
		}
		fmt.Fprintln(table)
	}
	if len(r.Offloading) > 0 {
		fmt.Fprintln(table, "PODS\tREADY IN\tNUMBER\tP50\tP90\tP99")
		for _, o := range r.Offloading {
			fmt.Fprintf(table, "%s\t%s\t%d\t%s\n", pathTitles[o.Path], o.Cluster, o.Count, &o.benchTimes)
		}
		fmt.Fprintln(table)
	}
	return table.Flush()
}

// pathTitles are the words of the tables.
var pathTitles = map[string]string{pathTunnel: "tunnel", pathDirect: "without tunnel", pathOffloaded: "offloaded", pathLocal: "created there"}

// streamCounts returns the measured numbers of streams.
func (r *benchReport) streamCounts() (all []int) {
	for _, p := range r.Paths {
		for _, t := range p.Throughput[min(len(all), len(p.Throughput)):] {
			all = append(all, t.Streams)
		}
	}
	return all
}

func (r *benchReport) hasLatency() bool {
	for _, p := range r.Paths {
		if p.Latency != nil {
			return true
		}
	}
	return false
}

// String returns the cells of the times.
func (t *benchTimes) String() string {
	if t == nil {
		return "-\t-\t-"
	}
	return fmt.Sprintf("%s%s\t%s\t%s", formatSeconds(t.P50), formatRatio(t.Ratio), formatSeconds(t.P90), formatSeconds(t.P99))
}

func formatRate(bits float64) string {
	return formatUnits(bits, 1, "bit/s", "kbit/s", "Mbit/s", "Gbit/s")
}

func formatSeconds(seconds float64) string { return formatUnits(seconds, 1e-6, "µs", "ms", "s") }

// formatUnits returns a value with three digits, in the largest possible unit. Each unit is 1000 of the previous unit; unit is the first.
func formatUnits(value, unit float64, names ...string) string {
	value /= unit
	i := 0
	for ; value >= 999.5 && i < len(names)-1; i++ {
		value /= 1000
	}
	if value >= 999.5 {
		return fmt.Sprintf("%.0f %s", value, names[i])
	}
	return fmt.Sprintf("%.3g %s", value, names[i])
}

func formatRatio(ratio float64) string {
	if ratio == 0 {
		return ""
	}
	return fmt.Sprintf(" (%.2f ×)", ratio)
}
