// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"

	"liqo.io/liqo/test/figures"
)

// result is everything that one run measured.
type result struct {
	// Floor tells that what is offloaded is so by the floor, and not by our processes.
	Floor    bool               `json:"floor,omitempty"`
	Idle     map[string]float64 `json:"idleMillicores"`
	Baseline float64            `json:"idleCores"`
	Config   figures.Spread     `json:"configMapSeconds"`
	Volumes  *volumes           `json:"volumes,omitempty"`
	Bursts   []*burst           `json:"bursts"`
	Restart  *restart           `json:"restart,omitempty"`
	Promises []figures.Promise  `json:"verdict"`
}

const mib = 1 << 20

// verdict compares what was measured with what is promised.
func (r *result) verdict() []figures.Promise {
	rows := []figures.Promise{
		{What: "a ConfigMap in the provider, median", Value: r.Config.P50 * 1000, Limit: 8, Unit: "ms"},
		{What: "a ConfigMap in the provider, 95 %", Value: r.Config.P95 * 1000, Limit: 12, Unit: "ms"},
	}
	if r.Floor {
		for _, pods := range r.sizes() {
			rows = append(rows, r.prices(pods)...)
		}
		return rows
	}
	for _, role := range slices.Sorted(maps.Keys(r.Idle)) {
		rows = append(rows, figures.Promise{What: "idle: " + role, Value: r.Idle[role], Limit: 5, Unit: "millicores"})
	}
	for _, pods := range r.sizes() {
		of := func(get func(*burst) float64) float64 { return r.median(pods, true, get) }
		rows = append(rows, r.prices(pods)...)
		rows = append(rows,
			figures.Promise{What: ofSize(pods, "our requests"), Value: of(func(b *burst) float64 { return b.Ours }), Limit: 6, Unit: "per pod"},
			figures.Promise{What: ofSize(pods, "requests of everybody"), Value: of(func(b *burst) float64 { return b.All }), Limit: 12, Unit: "per pod"},
			figures.Promise{What: ofSize(pods, "status behind the provider, at most"), Value: of(func(b *burst) float64 { return b.Lag.Max }), Limit: 1, Unit: "s"},
			figures.Promise{What: ofSize(pods, "memory of the virtual kubelet"), Value: of(func(b *burst) float64 { return b.Resident / mib }), Limit: 40 + float64(pods)*20/1024, Unit: "MiB"},
		)
	}
	if v := r.Volumes; v != nil {
		rows = append(rows, figures.Promise{What: "binding of a claim, median", Value: v.Offloaded.P50 / v.Direct.P50, Limit: 2, Unit: "× vanilla"})
	}
	if r.Restart != nil {
		writes := 0
		for _, n := range r.Restart.Writes {
			writes += n
		}
		what := fmt.Sprintf("start of the virtual kubelet with %d pods: ", r.Restart.Pods)
		rows = append(rows,
			figures.Promise{What: what + "ready", Value: r.Restart.Ready, Limit: 5, Unit: "s"},
			figures.Promise{What: what + "redundant writes", Value: float64(writes), Limit: 0},
		)
	}
	return rows
}

// prices are what offloaded bursts of one size cost, compared with vanilla ones.
func (r *result) prices(pods int) []figures.Promise {
	ratio := func(get func(*burst) float64) float64 { return r.median(pods, true, get) / r.median(pods, false, get) }
	return []figures.Promise{
		{What: ofSize(pods, "time until ready"), Value: ratio(func(b *burst) float64 { return b.Seconds }), Limit: 3, Unit: "× vanilla", Stretch: 2.5},
		{What: ofSize(pods, "CPU of both clusters"), Value: ratio(func(b *burst) float64 { return b.CPU }), Limit: 3.5, Unit: "× vanilla"},
	}
}

func ofSize(pods int, what string) string { return fmt.Sprintf("%d pods: %s", pods, what) }

func (r *result) median(pods int, offloaded bool, get func(*burst) float64) float64 {
	var values []float64
	for _, b := range r.Bursts {
		if b.Pods == pods && b.Offloaded == offloaded {
			values = append(values, get(b))
		}
	}
	return figures.Median(values)
}

// kind is what bursts are called.
func (r *result) kind(offloaded bool) string {
	switch {
	case !offloaded:
		return "vanilla"
	case r.Floor:
		return "floor"
	}
	return "offloaded"
}

// sizes are the numbers of pods that were measured, in order.
func (r *result) sizes() []int {
	var out []int
	for _, b := range r.Bursts {
		out = append(out, b.Pods)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// print shows the promises first and then what a reader of a broken one asks for.
func (r *result) print(to io.Writer) error {
	if err := figures.Print(to, r.Promises); err != nil {
		return err
	}
	w := tabwriter.NewWriter(to, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "\nBURST\tREADY\tCPU PER POD\tREQUESTS PER POD\tOURS\tSTATUS LAG (50 %%, 95 %%, MAX)\tVIRTUAL KUBELET\n")
	for _, b := range r.Bursts {
		rest := "\t\t\t"
		if b.Offloaded {
			rest = fmt.Sprintf("%.1f\t%.2f %.2f %.2f s\t", b.Ours, b.Lag.P50, b.Lag.P95, b.Lag.Max)
			if !r.Floor {
				rest += fmt.Sprintf("%.0f MiB, %.0f anonymous", b.Resident/mib, b.Anonymous/mib)
			}
		}
		fmt.Fprintf(w, "%d %s\t%.2f s\t%.1f ms\t%.1f\t%s\n", b.Pods, r.kind(b.Offloaded), b.Seconds, b.CPU*1000, b.All, rest)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	for _, offloaded := range []bool{false, true} {
		r.detail(to, offloaded)
	}
	if r.Restart != nil {
		fmt.Fprintf(to, "\nThe virtual kubelet started with %d pods: ready after %.2f s, offloads after %.2f s, redundant writes %v\n",
			r.Restart.Pods, r.Restart.Ready, r.Restart.Works, r.Restart.Writes)
	}
	return nil
}

// detail shows who used the CPU and who asked for what in the last burst of its kind.
func (r *result) detail(to io.Writer, offloaded bool) {
	var b *burst
	for _, each := range r.Bursts {
		if each.Offloaded == offloaded {
			b = each
		}
	}
	if b == nil {
		return
	}
	n := float64(b.Pods)
	fmt.Fprintf(to, "\nThe last burst, %d pods %s, per pod:\n", b.Pods, r.kind(offloaded))
	for _, role := range slices.SortedFunc(maps.Keys(b.CPUOf), func(x, y string) int { return cmp.Or(cmp.Compare(b.CPUOf[y], b.CPUOf[x]), strings.Compare(x, y)) }) {
		if ms := b.CPUOf[role] / n * 1000; ms >= 0.1 {
			fmt.Fprintf(to, "  %6.1f ms CPU   %s\n", ms, role)
		}
	}
	for _, what := range slices.SortedFunc(maps.Keys(b.Counts), func(x, y string) int { return cmp.Or(cmp.Compare(b.Counts[y], b.Counts[x]), strings.Compare(x, y)) }) {
		if per := float64(b.Counts[what]) / n; per >= 0.02 {
			fmt.Fprintf(to, "  %6.2f requests %s\n", per, what)
		}
	}
}
