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
)

// result is everything that one run measured.
type result struct {
	Version  string             `json:"version"`
	Machine  string             `json:"machine"`
	Idle     map[string]float64 `json:"idleMillicores"`
	Baseline float64            `json:"idleCores"`
	Config   spread             `json:"configMapSeconds"`
	Bursts   []*burst           `json:"bursts"`
	Restart  *restart           `json:"restart,omitempty"`
	Rows     []row              `json:"verdict"`
}

// row is one promise and what became of it.
type row struct {
	What    string  `json:"what"`
	Value   float64 `json:"value"`
	Limit   float64 `json:"limit"`
	Unit    string  `json:"unit"`
	Stretch float64 `json:"stretch,omitempty"`
}

func (r row) kept() bool { return r.Value <= r.Limit }

const mib = 1 << 20

// verdict compares what was measured with what is promised.
func (r *result) verdict() []row {
	rows := []row{
		{What: "a ConfigMap in the provider, median", Value: r.Config.P50 * 1000, Limit: 8, Unit: "ms"},
		{What: "a ConfigMap in the provider, 95 %", Value: r.Config.P95 * 1000, Limit: 12, Unit: "ms"},
	}
	for _, role := range slices.Sorted(maps.Keys(r.Idle)) {
		rows = append(rows, row{What: "idle: " + role, Value: r.Idle[role], Limit: 5, Unit: "millicores"})
	}
	for _, pods := range r.sizes() {
		of := func(offloaded bool, get func(*burst) float64) float64 {
			var values []float64
			for _, b := range r.Bursts {
				if b.Pods == pods && b.Offloaded == offloaded {
					values = append(values, get(b))
				}
			}
			return median(values)
		}
		ratio := func(get func(*burst) float64) float64 { return of(true, get) / of(false, get) }
		what := func(text string) string { return fmt.Sprintf("%d pods: %s", pods, text) }
		rows = append(rows,
			row{What: what("time until ready"), Value: ratio(func(b *burst) float64 { return b.Seconds }), Limit: 3, Unit: "× vanilla", Stretch: 2.5},
			row{What: what("CPU of both clusters"), Value: ratio(func(b *burst) float64 { return b.CPU }), Limit: 3.5, Unit: "× vanilla"},
			row{What: what("our requests"), Value: of(true, func(b *burst) float64 { return b.Ours }), Limit: 6, Unit: "per pod"},
			row{What: what("requests of everybody"), Value: of(true, func(b *burst) float64 { return b.All }), Limit: 12, Unit: "per pod"},
			row{What: what("status behind the provider, at most"), Value: of(true, func(b *burst) float64 { return b.Lag.Max }), Limit: 1, Unit: "s"},
			row{What: what("memory of the virtual kubelet"), Value: of(true, func(b *burst) float64 { return b.Resident / mib }), Limit: 40 + float64(pods)*20/1024, Unit: "MiB"},
		)
	}
	if r.Restart != nil {
		writes := 0
		for _, n := range r.Restart.Writes {
			writes += n
		}
		what := fmt.Sprintf("start of the virtual kubelet with %d pods: ", r.Restart.Pods)
		rows = append(rows,
			row{What: what + "ready", Value: r.Restart.Ready, Limit: 5, Unit: "s"},
			row{What: what + "redundant writes", Value: float64(writes), Limit: 0},
		)
	}
	return rows
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
func (r *result) print(to io.Writer) {
	w := tabwriter.NewWriter(to, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "\n%s on %s\n\nPROMISE\tMEASURED\tLIMIT\t\n", r.Version, r.Machine)
	for _, p := range r.Rows {
		note := "kept"
		switch {
		case !p.kept():
			note = "BROKEN"
		case p.Stretch > 0 && p.Value <= p.Stretch:
			note = fmt.Sprintf("kept, also the %.3g wished for", p.Stretch)
		}
		fmt.Fprintf(w, "%s\t%.3g %s\t%.3g\t%s\n", p.What, p.Value, p.Unit, p.Limit, note)
	}
	fmt.Fprintf(w, "\nBURST\tREADY\tCPU PER POD\tREQUESTS PER POD\tOURS\tSTATUS LAG (50 %%, 95 %%, MAX)\tVIRTUAL KUBELET\n")
	for _, b := range r.Bursts {
		kind, rest := "vanilla", "\t\t\t"
		if b.Offloaded {
			kind = "offloaded"
			rest = fmt.Sprintf("%.1f\t%.2f %.2f %.2f s\t%.0f MiB, %.0f anonymous", b.Ours, b.Lag.P50, b.Lag.P95, b.Lag.Max, b.Resident/mib, b.Anonymous/mib)
		}
		fmt.Fprintf(w, "%d %s\t%.2f s\t%.1f ms\t%.1f\t%s\n", b.Pods, kind, b.Seconds, b.CPU*1000, b.All, rest)
	}
	w.Flush()
	for _, offloaded := range []bool{false, true} {
		r.detail(to, offloaded)
	}
	if r.Restart != nil {
		fmt.Fprintf(to, "\nThe virtual kubelet started with %d pods: ready after %.2f s, offloads after %.2f s, redundant writes %v\n",
			r.Restart.Pods, r.Restart.Ready, r.Restart.Works, r.Restart.Writes)
	}
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
	kind := map[bool]string{false: "vanilla", true: "offloaded"}[offloaded]
	n := float64(b.Pods)
	fmt.Fprintf(to, "\nThe last burst, %d pods %s, per pod:\n", b.Pods, kind)
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
