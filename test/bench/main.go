// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

// Bench measures what offloading costs, on two clusters of the playground whose provider has simulated nodes: the same
// bursts of pods directly in the provider and offloaded, by turns, and what idling, ConfigMaps and a restart cost.
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
	"time"

	"liqo.io/liqo/test/figures"
)

type options struct {
	home, pods, output string
	rounds, samples    int
	claims             int
	floor              bool
}

func main() {
	var o options
	flag.StringVar(&o.home, "home", os.Getenv("LIQO_PLAYGROUND_HOME"), "folder of the playground whose clusters a and b are used")
	flag.StringVar(&o.pods, "pods", "100,500,2000", "sizes of the bursts")
	flag.IntVar(&o.rounds, "rounds", 3, "times that each size up to 500 is measured; larger ones are measured once")
	flag.IntVar(&o.samples, "configmaps", 200, "number of ConfigMaps")
	flag.IntVar(&o.claims, "claims", 10, "number of PersistentVolumeClaims")
	flag.BoolVar(&o.floor, "floor", false, "measure the least that bursts can cost offloaded, in clusters without Liqo")
	flag.StringVar(&o.output, "output", "dist/bench", "folder of the results")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	r, err := run(ctx, o)
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
	if !o.floor && slices.ContainsFunc(r.Promises, func(p figures.Promise) bool { return !p.Kept() }) {
		os.Exit(1)
	}
}

func run(ctx context.Context, o options) (*result, error) {
	sizes, err := parseSizes(o.pods)
	if err != nil {
		return nil, err
	}
	if o.floor {
		r, err := measureFloor(ctx, playground{o.home}, sizes, o)
		if err != nil {
			return nil, err
		}
		return r, r.publish(filepath.Join(o.output, "floor.json"))
	}
	say("installing and peering")
	s, err := newBenchEnv(ctx, playground{o.home})
	if err != nil {
		return nil, err
	}
	r := &result{}
	if err := s.measure(ctx, r, sizes, o); err != nil {
		return nil, err
	}
	return r, r.publish(filepath.Join(o.output, "result.json"))
}

// publish judges what was measured, prints it and saves it.
func (r *result) publish(file string) error {
	r.Promises = r.verdict()
	if err := r.print(os.Stdout); err != nil {
		return err
	}
	return figures.Save(file, r)
}

func parseSizes(text string) ([]int, error) {
	var sizes []int
	for part := range strings.SplitSeq(text, ",") {
		n, err := strconv.Atoi(part)
		if err != nil || n < 1 {
			return nil, fmt.Errorf("-pods is a list of numbers: %q", text)
		}
		sizes = append(sizes, n)
	}
	slices.Sort(sizes)
	return sizes, nil
}

// warmUp has everything ready for the first burst, and knows what idling costs.
func (s *benchEnv) warmUp(ctx context.Context, r *result) error {
	say("warming up")
	if err := s.clear(ctx); err != nil { // of a run that was interrupted
		return err
	}
	for _, offloaded := range []bool{false, true} {
		if _, err := s.burst(ctx, 20, offloaded); err != nil {
			return err
		}
	}
	if err := s.clear(ctx); err != nil {
		return err
	}
	time.Sleep(2 * settling)
	say("idling for %v", idleTime)
	var err error
	if r.Idle, err = s.idle(ctx); err != nil {
		return err
	}
	r.Baseline = s.idleCPU
	return nil
}

func (s *benchEnv) measure(ctx context.Context, r *result, sizes []int, o options) error {
	if err := s.warmUp(ctx, r); err != nil {
		return err
	}
	var err error
	say("%d ConfigMaps", o.samples)
	if r.Config, err = s.configMaps(ctx, o.samples); err != nil {
		return err
	}
	say("%d claims", o.claims)
	if r.Volumes, err = s.measureVolumes(ctx, o.claims); err != nil {
		return err
	}
	for _, pods := range sizes {
		if err := s.rounds(ctx, r, pods, o.rounds); err != nil {
			return err
		}
	}
	last := sizes[len(sizes)-1]
	say("starting the virtual kubelet anew with %d pods", last)
	if r.Restart, err = s.restart(ctx, last); err != nil {
		return err
	}
	return s.clear(ctx)
}

// rounds measures one size, vanilla and offloaded by turns, and leaves the last offloaded burst there.
func (s *benchEnv) rounds(ctx context.Context, r *result, pods, rounds int) error {
	if pods > 500 {
		rounds = 1
	}
	for range rounds {
		for _, offloaded := range []bool{false, true} {
			if err := s.clear(ctx); err != nil {
				return err
			}
			b, err := s.burst(ctx, pods, offloaded)
			if err != nil {
				return err
			}
			say("%d pods, offloaded %v: %.2f s, %.1f ms CPU per pod", pods, offloaded, b.Seconds, b.CPU*1000)
			r.Bursts = append(r.Bursts, b)
		}
	}
	return nil
}

func say(format string, args ...any) {
	fmt.Fprintf(os.Stderr, "bench: "+format+"\n", args...)
}
