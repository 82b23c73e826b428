// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package ctl

import (
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"

	"liqo.io/liqo/internal/benchmark"
	"liqo.io/liqo/internal/ctl/network"
	"liqo.io/liqo/internal/testkit"
)

// bench is what becomes of a pod of a benchmark: p.mu is locked.
func (p *theatre) bench(ctx context.Context, c *testkit.ControlPlane, pod *corev1.Pod) error {
	args := pod.Spec.Containers[0].Args
	if args[1] != "measure" {
		if sends := strings.HasPrefix(pod.Name, "server-"); sends != (pod.Spec.Containers[0].ReadinessProbe != nil) {
			return fmt.Errorf("pod %s has the readiness probe %v", pod.Name, pod.Spec.Containers[0].ReadinessProbe)
		}
		if image := pod.Spec.Containers[0].Image; strings.HasPrefix(pod.Name, "start-") && image != "liqo:bergen" {
			return fmt.Errorf("pod %s, which runs in bergen, has the image %s", pod.Name, image)
		}
		address := "10.200.0." + map[string]string{"server-0": "10"}[pod.Name]
		if address == "10.200.0." {
			address += "11"
		}
		pod.Status.Phase, pod.Status.PodIP, pod.Status.PodIPs = corev1.PodRunning, address, []corev1.PodIP{{IP: address}}
		pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
		return c.Client.Status().Update(ctx, pod)
	}
	var plan benchmark.Plan
	if err := json.Unmarshal([]byte(args[2]), &plan); err != nil {
		return err
	}
	results, err := p.measure(pod, plan)
	if err == errForEver {
		return nil
	}
	message, err := json.Marshal(results)
	if err != nil {
		return err
	}
	pod.Status.Phase = corev1.PodSucceeded
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "bench", State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{Message: string(message)}}}}
	return c.Client.Status().Update(ctx, pod)
}

// benchmark runs the command, with pods that measure like that.
func (p *theatre) benchmark(ctx context.Context, t *testing.T, local, remote *rest.Config, measure func(*corev1.Pod, benchmark.Plan) ([]benchmark.Measured, error), args ...string) result {
	t.Helper()
	p.mu.Lock()
	p.measure = measure
	p.mu.Unlock()
	return liqoctlUntil(ctx, t, local, slices.Concat([]string{"bench"}, args, []string{"--remote-kubeconfig", kubeconfigFile(t, remote)})...)
}

// ofPlan returns the results of a plan: the tunnel is half as fast as what nodes do without it.
func ofPlan(plan benchmark.Plan) []benchmark.Measured {
	results := make([]benchmark.Measured, len(plan.Targets))
	for i := range results {
		for _, n := range plan.Streams {
			results[i].Rates = append(results[i].Rates, benchmark.Rate{BitsPerSecond: float64(i+1) * float64(n) * 1e9, Bytes: 1})
		}
		if plan.RoundTrips {
			results[i].RoundTrips = &benchmark.Spread{Count: 9, P50: 0.001 / float64(i+1), P90: 0.002, P99: 0.004}
		}
	}
	return results
}

func aBenchmarkIsReported(t *testing.T, p *theatre) {
	t.Helper()
	var mu sync.Mutex
	requested := map[string]bool{}
	measure := func(pod *corev1.Pod, plan benchmark.Plan) ([]benchmark.Measured, error) {
		mu.Lock()
		defer mu.Unlock()
		requested[fmt.Sprint(pod.Namespace, " ", plan.Targets, plan.Streams, plan.RoundTrips)] = true
		return ofPlan(plan), nil
	}
	r := p.benchmark(t.Context(), t, p.oslo.Config, p.bergen.Config, measure, "--pods", "3")
	times := regexp.MustCompile(`(?m)^(created there|offloaded)( +)(bergen|oslo)( +)3 .*$`)
	if n := len(times.FindAllString(r.stdout, -1)); r.err != nil || n != 2 {
		t.Errorf("%v, %d rows of pods:\n%s%s", r.err, n, r.stdout, r.stderr)
	}
	paths, _, _ := strings.Cut(r.stdout, "PODS")
	const want = `THROUGHPUT       FROM              TO                1 STREAM            4 STREAMS
tunnel           bergen/bergen-1   oslo/oslo-1       1 Gbit/s (0.50 ×)   4 Gbit/s (0.50 ×)
without tunnel   oslo/oslo-1       oslo/oslo-1       2 Gbit/s            8 Gbit/s
tunnel           oslo/oslo-1       bergen/bergen-1   1 Gbit/s (0.50 ×)   4 Gbit/s (0.50 ×)
without tunnel   bergen/bergen-1   bergen/bergen-1   2 Gbit/s            8 Gbit/s

LATENCY          FROM              TO                P50             P90    P99
tunnel           bergen/bergen-1   oslo/oslo-1       1 ms (2.00 ×)   2 ms   4 ms
without tunnel   oslo/oslo-1       oslo/oslo-1       500 µs          2 ms   4 ms
tunnel           oslo/oslo-1       bergen/bergen-1   1 ms (2.00 ×)   2 ms   4 ms
without tunnel   bergen/bergen-1   bergen/bergen-1   500 µs          2 ms   4 ms

`
	if diff := cmp.Diff(want, paths); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	const lines = ` INFO   (oslo) Cluster identity correctly retrieved
 INFO   (bergen) Cluster identity correctly retrieved
 WARN   (oslo) It has one node that takes pods: the path without tunnel is between two pods of the same node
 WARN   (bergen) It has one node that takes pods: the path without tunnel is between two pods of the same node
 INFO   (oslo) Namespace liqo-bench is offloaded
 INFO   (oslo) The objects of the benchmark are removed
 INFO   (bergen) The objects of the benchmark are removed
`
	if diff := cmp.Diff(lines, comparableOutput(r.stderr, lines)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if diff := cmp.Diff(map[string]bool{
		"liqo-bench [10.71.0.10:8080 10.200.0.11:8080] [1 4] true":      true,
		"liqo-bench-oslo [10.72.0.10:8080 10.200.0.11:8080] [1 4] true": true,
	}, requested); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	p.checkNothingRemains(t)

	// A part of it needs fewer permissions, and prints a part of the document.
	for _, c := range []*testkit.ControlPlane{p.oslo, p.bergen} {
		testkit.Allow(t, c, "liqo", "surveyor", testkit.Rule("", "configmaps", "list"))
	}
	p.benchmark(t.Context(), t, p.oslo.User(t, "surveyor"), p.bergen.Config, measure).refuses(t, "in the oslo cluster: you are not allowed to get namespaces, ",
		"create pods, list serviceaccounts, watch serviceaccounts, get namespaceoffloadings.offloading.liqo.io, ", "create namespaceoffloadings.offloading.liqo.io in namespace liqo-bench")
	p.benchmark(t.Context(), t, p.oslo.Config, p.bergen.User(t, "surveyor"), measure).refuses(t, "in the bergen cluster: you are not allowed to", "delete pods in namespace liqo-bench-oslo")
	r = p.benchmark(t.Context(), t, p.oslo.Config, p.bergen.Config, measure, "latency", "-o", "json")
	var document struct {
		Paths []struct {
			Path       string
			Throughput []any
			Latency    struct{ P50Seconds, Ratio float64 }
		}
		Offloading []any
	}
	if err := json.Unmarshal([]byte(r.stdout), &document); err != nil || r.err != nil {
		t.Fatalf("%v, %v:\n%s%s", r.err, err, r.stdout, r.stderr)
	}
	if len(document.Paths) != 4 || document.Paths[0].Path != "Tunnel" || document.Paths[0].Latency.P50Seconds != 0.001 || document.Paths[0].Latency.Ratio != 2 ||
		document.Paths[0].Throughput != nil || document.Offloading == nil || len(document.Offloading) != 0 {
		t.Errorf("the document is\n%s", r.stdout)
	}
	p.benchmark(t.Context(), t, p.oslo.Config, p.bergen.Config, measure, "latency", "--node", "bergen").refuses(t, `in the oslo cluster: node "bergen" does not exist, or takes no pods`, "These do: oslo-1")
	p.benchmark(t.Context(), t, p.oslo.Config, p.bergen.Config, measure, "--duration", "40s").refuses(t, "the measurements alone take 8m6s, and --timeout is 5m0s", "Give a longer --timeout")
	p.checkNothingRemains(t)
}

// aBrokenPathIsTold beside what was measured.
func aBrokenPathIsTold(t *testing.T, p *theatre) {
	t.Helper()
	r := p.benchmark(t.Context(), t, p.oslo.Config, p.bergen.Config, func(pod *corev1.Pod, plan benchmark.Plan) ([]benchmark.Measured, error) {
		results := ofPlan(plan)
		if pod.Namespace == network.BenchNamespace {
			results[0] = benchmark.Measured{Error: "receiving: no data arrives, although the connection was made"}
		}
		return results, nil
	}, "throughput")
	if !strings.Contains(r.stdout, "\ntunnel           bergen/bergen-1   oslo/oslo-1       -                   -\n") || !strings.Contains(r.stdout, "1 Gbit/s (0.50 ×)") {
		t.Errorf("it prints\n%s", r.stdout)
	}
	r.refuses(t, "from bergen/bergen-1 to oslo/oslo-1: receiving: no data arrives", "liqoctl test network tries the paths between all nodes")
	p.checkNothingRemains(t)
}

// resultsOfAStrangerAreRefused has the provider report more than was measured.
func resultsOfAStrangerAreRefused(t *testing.T, p *theatre) {
	t.Helper()
	r := p.benchmark(t.Context(), t, p.oslo.Config, p.bergen.Config, func(pod *corev1.Pod, plan benchmark.Plan) ([]benchmark.Measured, error) {
		results := ofPlan(plan)
		if pod.Namespace != network.BenchNamespace {
			results[0].Rates = append(results[0].Rates, results[0].Rates...)
		}
		return results, nil
	}, "throughput")
	r.refuses(t, "in the bergen cluster: the pod that measures failed: reading results: those of 10.72.0.10:8080 are not what was asked for")
	p.checkNothingRemains(t)
}

// anInterruptedBenchmarkIsRemoved, and what was measured before is printed.
func anInterruptedBenchmarkIsRemoved(t *testing.T, p *theatre) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	r := p.benchmark(ctx, t, p.oslo.Config, p.bergen.Config, func(pod *corev1.Pod, plan benchmark.Plan) ([]benchmark.Measured, error) {
		if pod.Namespace != network.BenchNamespace {
			cancel()
			return nil, errForEver
		}
		return ofPlan(plan), nil
	})
	if r.err == nil || !strings.Contains(r.stderr, "interrupted") || !strings.Contains(r.stdout, "tunnel           bergen/bergen-1   oslo/oslo-1") || strings.Contains(r.stdout, "PODS") {
		t.Errorf("%v:\n%s%s", r.err, r.stdout, r.stderr)
	}
	p.checkNothingRemains(t)
}
