// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

// Netbench measures the network between two clusters of the playground: what pods get of it, against the bare WireGuard
// library between the nodes of the gateways, by turns; for how long it is away when a part of it dies; and, before that, how
// long the command that peers takes until pods can be lent.
// `make bench` makes the clusters and runs it; it fails when a promise is broken.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"liqo.io/liqo/internal/benchmark"
	"liqo.io/liqo/test/figures"
	"liqo.io/liqo/test/traffic"
)

func main() {
	if len(os.Args) == 3 && os.Args[1] == bareCommand {
		if err := runBare(os.Args[2]); err != nil {
			fmt.Fprintln(os.Stderr, "netbench:", err)
			os.Exit(1)
		}
		return
	}
	home := flag.String("home", os.Getenv("LIQO_PLAYGROUND_HOME"), "folder of the playground whose clusters a and b, of two nodes each, are used")
	rounds := flag.Int("rounds", 5, "times that speeds are measured; medians count, and 0 leaves them out")
	peerings := flag.Int("peerings", 5, "times that the clusters peer and part, with and without a network, before all else")
	outages := flag.Bool("outages", true, "end one part after the other")
	move := flag.Bool("move", true, "move a volume to the provider")
	insist := flag.Bool("insist", true, "fail when a promise is broken")
	output := flag.String("output", "dist/bench", "folder of the results")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // a second signal ends it at once
	r, err := run(ctx, *home, *rounds, *peerings, *move, *outages)
	if err == nil {
		err = figures.Print(os.Stdout, r.Promises)
	}
	if err == nil {
		r.print()
		err = figures.Save(filepath.Join(*output, "network.json"), r)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "netbench:", err)
		os.Exit(1)
	}
	if *insist && slices.ContainsFunc(r.Promises, func(p figures.Promise) bool { return !p.Kept() }) {
		os.Exit(1)
	}
}

// measured are the figures of one path in each round. Rates are in Gbit/s, times in seconds.
type measured struct {
	Path string    `json:"path"`
	TCP1 []float64 `json:"tcp1"`
	TCP4 []float64 `json:"tcp4"`
	UDP  []float64 `json:"udp"`
	P50  []float64 `json:"roundTrip50"`
	P99  []float64 `json:"roundTrip99"`
}

type result struct {
	Paths    []*measured       `json:"paths"` // that of the bare library between nodes, then by turns between pods and ours between the same
	Memory   []float64         `json:"gatewayBytes"`
	Peerings []figures.Promise `json:"peerings"`
	Moves    []figures.Promise `json:"moves"`
	Outages  []figures.Promise `json:"outages"`
	Promises []figures.Promise `json:"promises"`
}

func run(ctx context.Context, home string, rounds, peerings int, move, outages bool) (*result, error) {
	say("installing and connecting")
	w, err := newBenchEnv(ctx, home, peerings)
	if err != nil {
		return nil, err
	}
	r := &result{Peerings: w.peerings}
	if rounds > 0 {
		if err := r.speeds(ctx, w, rounds); err != nil {
			return nil, err
		}
	}
	if move || outages {
		if err := w.offload(ctx); err != nil {
			return nil, err
		}
	}
	if move {
		if r.Moves, err = w.measureMove(ctx); err != nil {
			return nil, err
		}
	}
	if outages {
		if r.Outages, err = w.outages(ctx); err != nil {
			return nil, err
		}
	}
	r.Promises = slices.Concat(r.Peerings, r.verdict(), r.Moves, r.Outages)
	return r, nil
}

// speeds measures all paths by turns, and the memory of the gateways after.
func (r *result) speeds(ctx context.Context, w *benchEnv, rounds int) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop() // ends the bare library
	shortest, err := w.bareNodes(ctx)
	if err != nil {
		return err
	}
	paths := []traffic.Path{shortest}
	for _, p := range w.paths {
		alone, err := w.barePods(ctx, p)
		if err != nil {
			return err
		}
		paths = append(paths, alone, p)
	}
	for _, p := range paths {
		r.Paths = append(r.Paths, &measured{Path: p.Name})
	}
	for range rounds {
		for i, p := range paths {
			if err := r.Paths[i].measure(p); err != nil {
				return err
			}
			if ctx.Err() != nil {
				return ctx.Err()
			}
		}
	}
	for _, g := range w.gateways {
		pids, err := programs(g.UID)
		if err != nil {
			return err
		}
		sum := 0.0 // pages of the program's file, which are shared, count for each
		for _, pid := range pids {
			peak, err := peakMemory(pid)
			if err != nil {
				return err
			}
			sum += peak
		}
		r.Memory = append(r.Memory, sum)
	}
	return nil
}

func (m *measured) measure(p traffic.Path) error {
	one, err := p.Streams(1)
	if err != nil {
		return err
	}
	four, err := p.Streams(4)
	if err != nil {
		return err
	}
	udp, err := p.Datagrams()
	if err != nil {
		return err
	}
	times, err := p.RoundTrips()
	if err != nil {
		return err
	}
	p50, p99 := figures.Median(times), benchmark.Quantile(times, 0.99)
	say("%s: TCP %.2f, %.2f Gbit/s, UDP %.3f Gbit/s, round trip %.0f, %.0f µs", p.Name, one, four, udp, p50*1e6, p99*1e6)
	m.TCP1, m.TCP4, m.UDP = append(m.TCP1, one), append(m.TCP4, four), append(m.UDP, udp)
	m.P50, m.P99 = append(m.P50, p50), append(m.P99, p99)
	return nil
}

// verdict compares medians of each path with those of the bare library between the same pods, and the worst run of TCP with its median.
func (r *result) verdict() []figures.Promise {
	if len(r.Paths) == 0 {
		return nil
	}
	var out []figures.Promise
	for pair := range slices.Chunk(r.Paths[1:], 2) {
		alone, p := pair[0], pair[1]
		ratio := func(what string, of, than []float64, limit, stretch float64, least bool) {
			out = append(out, figures.Promise{
				What: p.Path + ": " + what, Value: figures.Median(of) / figures.Median(than), Limit: limit, Stretch: stretch, Least: least, Unit: "× bare",
			})
		}
		worst := func(of []float64) []float64 { return []float64{benchmark.Quantile(of, 0)} }
		ratio("TCP, one stream", p.TCP1, alone.TCP1, 0.75, 0.85, true)
		ratio("TCP, four streams", p.TCP4, alone.TCP4, 0.75, 0.85, true)
		ratio("TCP, one stream, the worst run", worst(p.TCP1), alone.TCP1, 0.65, 0, true)
		ratio("TCP, four streams, the worst run", worst(p.TCP4), alone.TCP4, 0.65, 0, true)
		ratio("UDP, 1200 bytes", p.UDP, alone.UDP, 0.6, 0, true)
		ratio("round trip, median", p.P50, alone.P50, 1.5, 0, false)
		ratio("round trip, 99 %", p.P99, alone.P99, 2, 0, false)
	}
	for i, m := range r.Memory {
		out = append(out, figures.Promise{What: "memory of the gateway of the " + []string{"client", "server"}[i], Value: m / (1 << 20), Limit: 256, Unit: "MiB"})
	}
	return out
}

func (r *result) print() {
	if len(r.Paths) == 0 {
		return
	}
	fmt.Printf("\nMEDIANS\n")
	for _, p := range r.Paths {
		fmt.Printf("%-44s  TCP %.2f and %.2f Gbit/s   UDP %.3f Gbit/s   round trip %.0f and %.0f µs\n", p.Path,
			figures.Median(p.TCP1), figures.Median(p.TCP4), figures.Median(p.UDP), figures.Median(p.P50)*1e6, figures.Median(p.P99)*1e6)
	}
}

// peakMemory is the most that a process had resident, in bytes.
func peakMemory(pid int) (float64, error) {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, fmt.Errorf("reading the memory of process %d: %w", pid, err)
	}
	for line := range strings.Lines(string(data)) {
		if rest, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			kib, err := strconv.ParseFloat(strings.Fields(rest)[0], 64)
			return kib * 1024, err
		}
	}
	return 0, fmt.Errorf("process %d has no memory", pid)
}

func say(format string, args ...any) {
	fmt.Fprintf(os.Stderr, "netbench: "+format+"\n", args...)
}
