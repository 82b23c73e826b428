// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

// Package figures is what benchmarks measure with: medians, what was promised and what became of it, and where it was measured.
package figures

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"liqo.io/liqo/internal/benchmark"
)

// Promise is one of speed, and what was measured.
type Promise struct {
	What    string  `json:"what"`
	Value   float64 `json:"value"`
	Limit   float64 `json:"limit"`
	Least   bool    `json:"least,omitempty"` // the limit is the least, not the most
	Unit    string  `json:"unit"`
	Stretch float64 `json:"stretch,omitempty"`
}

// Kept tells whether the promise is; one of which nothing was measured is not.
func (p Promise) Kept() bool { return p.reaches(p.Limit) }

func (p Promise) reaches(limit float64) bool {
	return p.Least && p.Value >= limit || !p.Least && p.Value <= limit
}

// Print shows promises as a table.
func Print(to io.Writer, promises []Promise) error {
	w := tabwriter.NewWriter(to, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "\n%s on %s\n\nPROMISE\tMEASURED\tLIMIT\t\n", version(), machine())
	for _, p := range promises {
		note := "kept"
		switch {
		case !p.Kept():
			note = "BROKEN"
		case p.Stretch > 0 && p.reaches(p.Stretch):
			note = fmt.Sprintf("kept, also the %.3g wished for", p.Stretch)
		}
		fmt.Fprintf(w, "%s\t%.3g %s\t%.3g\t%s\n", p.What, p.Value, p.Unit, p.Limit, note)
	}
	return w.Flush()
}

// Save writes a result, with the version and the machine it is of, as JSON.
func Save(file string, result any) error {
	data, err := json.MarshalIndent(map[string]any{"version": version(), "machine": machine(), "result": result}, "", "  ")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return fmt.Errorf("making the folder of the results: %w", err)
	}
	return os.WriteFile(file, append(data, '\n'), 0o644)
}

// Median is the quantile of a half.
func Median(values []float64) float64 { return benchmark.Quantile(values, 0.5) }

// Spread is how a set of durations is reported, in seconds.
type Spread struct {
	P50 float64 `json:"p50"`
	P95 float64 `json:"p95"`
	Max float64 `json:"max"`
}

// SpreadOf summarises durations.
func SpreadOf(durations []time.Duration) Spread {
	seconds := make([]float64, len(durations))
	for i, d := range durations {
		seconds[i] = d.Seconds()
	}
	return Spread{benchmark.Quantile(seconds, 0.5), benchmark.Quantile(seconds, 0.95), benchmark.Quantile(seconds, 1)}
}

func version() string {
	out, err := exec.CommandContext(context.Background(), "git", "describe", "--tags", "--always", "--dirty").Output()
	if err != nil {
		return "unknown version"
	}
	return strings.TrimSpace(string(out))
}

// machine describes what the figures were taken on.
func machine() string {
	model := "unknown CPU"
	cores := 0
	data, _ := os.ReadFile("/proc/cpuinfo")
	for line := range strings.Lines(string(data)) {
		key, value, _ := strings.Cut(line, ":")
		if strings.TrimSpace(key) == "model name" {
			model = strings.TrimSpace(value)
			cores++
		}
	}
	total := 0.0
	data, _ = os.ReadFile("/proc/meminfo")
	if fields := strings.Fields(string(data)); len(fields) > 1 {
		total, _ = strconv.ParseFloat(fields[1], 64)
	}
	kernel, _ := os.ReadFile("/proc/sys/kernel/osrelease")
	return fmt.Sprintf("%d × %s, %.0f GiB, Linux %s", cores, model, total/(1<<20), bytes.TrimSpace(kernel))
}
