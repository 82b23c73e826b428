// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package virtualkubelet

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"liqo.io/liqo/internal/exposition"
	"liqo.io/liqo/internal/multicluster"
)

// resourceMetrics are the usages known to the provider's metrics-server, for providers without a metric agent that can read kubelets.
type resourceMetrics struct {
	// list returns the usages in a remote namespace.
	list  func(ctx context.Context, namespace string) (podMetricsList, error)
	pairs func() []multicluster.Pair

	mu sync.Mutex
	// used adds up the CPU of each container, because clients compute rates from counters.
	used map[containerKey]podUsage
}

type containerKey struct {
	pod  types.NamespacedName
	name string
}

// podMetricsList is the list of the kind PodMetrics of metrics.k8s.io.
type podMetricsList struct {
	Items []struct {
		Metadata   struct{ Name string } `json:"metadata"`
		Timestamp  metav1.Time           `json:"timestamp"`
		Window     metav1.Duration       `json:"window"`
		Containers []struct {
			Name  string              `json:"name"`
			Usage corev1.ResourceList `json:"usage"`
		} `json:"containers"`
	} `json:"items"`
}

// containerStats is the usage of a container in a summary.
type containerStats struct {
	Name   string      `json:"name"`
	CPU    cpuStats    `json:"cpu"`
	Memory memoryStats `json:"memory"`
}

// podSummary is the usage of a pod in a summary.
type podSummary struct {
	podStats
	Containers []containerStats `json:"containers"`
}

// parallelLists is the number of namespaces that are listed at once.
const parallelLists = 8

// readUsages returns the present usages of the pods of this node, sorted.
func (r *resourceMetrics) readUsages(ctx context.Context, pods localPods) ([]podSummary, error) {
	used := map[string]bool{}
	for pod := range pods {
		used[pod.Namespace] = true
	}
	pairs := slices.DeleteFunc(r.pairs(), func(p multicluster.Pair) bool { return !used[p.Local] })
	lists := make([]podMetricsList, len(pairs))
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(parallelLists)
	for i, pair := range pairs {
		group.Go(func() (err error) {
			lists[i], err = r.list(ctx, pair.Remote)
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.used == nil {
		r.used = map[containerKey]podUsage{}
	}
	maps.DeleteFunc(r.used, func(c containerKey, _ podUsage) bool { _, ours := pods[c.pod]; return !ours })
	var out []podSummary
	for i, list := range lists {
		for _, item := range list.Items {
			pod := types.NamespacedName{Namespace: pairs[i].Local, Name: item.Metadata.Name}
			if _, ours := pods[pod]; !ours {
				continue
			}
			summary := podSummary{}
			summary.PodRef.Namespace, summary.PodRef.Name = pod.Namespace, pod.Name
			for _, c := range item.Containers {
				if strconv.Quote(c.Name) != `"`+c.Name+`"` {
					continue // no container has such a name
				}
				usage := r.addUsage(containerKey{pod, c.Name}, c.Usage, item.Timestamp.Time, item.Window.Duration)
				summary.addContainer(containerStats{
					Name:   c.Name,
					CPU:    cpuStats{Time: usage.at, UsageNanoCores: uint64(max(c.Usage.Cpu().ScaledValue(-9), 0)), UsageCoreNanoSeconds: uint64(math.Round(usage.cpu * 1e9))},
					Memory: memoryStats{Time: usage.at, WorkingSetBytes: uint64(usage.memory)},
				})
			}
			out = append(out, summary)
		}
	}
	return out, nil
}

func (s *podSummary) addContainer(c containerStats) {
	s.Containers = append(s.Containers, c)
	s.CPU.Time, s.Memory.Time = c.CPU.Time, c.Memory.Time
	s.CPU.UsageNanoCores += c.CPU.UsageNanoCores
	s.CPU.UsageCoreNanoSeconds += c.CPU.UsageCoreNanoSeconds
	s.Memory.WorkingSetBytes += c.Memory.WorkingSetBytes
}

// addUsage adds a container's CPU usage since the last time to the container's counter. A measurement is counted once, however often it is read.
func (r *resourceMetrics) addUsage(container containerKey, usage corev1.ResourceList, at time.Time, window time.Duration) podUsage {
	out, known := r.used[container]
	if at.After(out.at) {
		if known {
			window = at.Sub(out.at)
		}
		// metrics-server takes a counter of zero for a missing one.
		out.cpu += max(usage.Cpu().AsApproximateFloat64()*window.Seconds(), leastUsage)
		out.memory, out.at = max(usage.Memory().AsApproximateFloat64(), 1), at
		r.used[container] = out
	}
	return out
}

// readPage returns the usages as a kubelet of the provider would serve them: only these two pages have nothing else.
func (r *resourceMetrics) readPage(ctx context.Context, path string, pods localPods) (*bytes.Buffer, error) {
	usages, err := r.readUsages(ctx, pods)
	if err != nil {
		return nil, err
	}
	out := &bytes.Buffer{}
	if path == "/stats/summary" {
		return out, json.NewEncoder(out).Encode(map[string]any{"pods": usages})
	}
	writeFamily := func(name, kind string, series func(*podSummary)) {
		fmt.Fprintf(out, "# HELP %s [STABLE] As metrics-server of the provider knows it\n# TYPE %s %s\n", name, name, kind)
		for i := range usages {
			series(&usages[i])
		}
	}
	labelsOf := func(p *podSummary) string {
		return fmt.Sprintf("%s=%q,%s=%q", exposition.NamespaceLabel, p.PodRef.Namespace, exposition.PodLabel, p.PodRef.Name)
	}
	writeCPU := func(name, labels string, cpu cpuStats) {
		fmt.Fprintf(out, "%s{%s} %v %d\n", name, labels, float64(cpu.UsageCoreNanoSeconds)/1e9, cpu.Time.UnixMilli())
	}
	writeMemory := func(name, labels string, memory memoryStats) {
		fmt.Fprintf(out, "%s{%s} %d %d\n", name, labels, memory.WorkingSetBytes, memory.Time.UnixMilli())
	}
	writeFamily("container_cpu_usage_seconds_total", "counter", func(p *podSummary) {
		for _, c := range p.Containers {
			writeCPU("container_cpu_usage_seconds_total", fmt.Sprintf("container=%q,%s", c.Name, labelsOf(p)), c.CPU)
		}
	})
	writeFamily("container_memory_working_set_bytes", "gauge", func(p *podSummary) {
		for _, c := range p.Containers {
			writeMemory("container_memory_working_set_bytes", fmt.Sprintf("container=%q,%s", c.Name, labelsOf(p)), c.Memory)
		}
	})
	writeFamily("pod_cpu_usage_seconds_total", "counter", func(p *podSummary) { writeCPU("pod_cpu_usage_seconds_total", labelsOf(p), p.CPU) })
	writeFamily("pod_memory_working_set_bytes", "gauge", func(p *podSummary) { writeMemory("pod_memory_working_set_bytes", labelsOf(p), p.Memory) })
	return out, nil
}
