// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package virtualkubelet

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// podStats are the interpreted fields of the statistics of a pod; all others are copied.
type podStats struct {
	PodRef struct {
		Name      string    `json:"name"`
		Namespace string    `json:"namespace"`
		UID       types.UID `json:"uid"`
	} `json:"podRef"`
	CPU    cpuStats    `json:"cpu"`
	Memory memoryStats `json:"memory"`
}

type cpuStats struct {
	Time                 time.Time `json:"time"`
	UsageNanoCores       uint64    `json:"usageNanoCores"`
	UsageCoreNanoSeconds uint64    `json:"usageCoreNanoSeconds"`
}

type memoryStats struct {
	Time            time.Time `json:"time"`
	WorkingSetBytes uint64    `json:"workingSetBytes"`
}

// nodeSummary is what /stats/summary answers.
type nodeSummary struct {
	Node struct {
		NodeName  string      `json:"nodeName"`
		StartTime time.Time   `json:"startTime"`
		CPU       cpuStats    `json:"cpu"`
		Memory    memoryStats `json:"memory"`
	} `json:"node"`
	Pods []map[string]json.RawMessage `json:"pods"`
}

// maxSummary is the maximum size of a summary in bytes: that of ten thousand pods has some twenty MiB.
const maxSummary = 64 << 20

// writeSummary writes the statistics of the pods of this node, and their sums as those of the node.
func (m *podMetrics) writeSummary(in io.Reader, out io.Writer, pods localPods) error {
	var page nodeSummary
	if err := json.NewDecoder(io.LimitReader(in, maxSummary)).Decode(&page); err != nil && !errors.Is(err, io.EOF) {
		return fmt.Errorf("reading the summary: %w", err)
	}
	now, usage := m.now(), map[types.NamespacedName]podUsage{}
	summary := nodeSummary{Pods: []map[string]json.RawMessage{}}
	for _, fields := range page.Pods {
		pod, err := decodeStats(fields)
		if err != nil {
			return fmt.Errorf("reading the summary of a pod: %w", err)
		}
		key := types.NamespacedName{Namespace: pod.PodRef.Namespace, Name: pod.PodRef.Name}
		uid, ours := pods[key]
		if !ours {
			continue
		}
		pod.PodRef.UID = uid
		if fields["podRef"], err = json.Marshal(pod.PodRef); err != nil {
			return err
		}
		summary.Pods = append(summary.Pods, fields)
		summary.Node.CPU.UsageNanoCores += pod.CPU.UsageNanoCores
		summary.Node.Memory.WorkingSetBytes += pod.Memory.WorkingSetBytes
		usage[key] = podUsage{cpu: float64(pod.CPU.UsageCoreNanoSeconds) / 1e9, memory: float64(pod.Memory.WorkingSetBytes), at: pod.CPU.Time}
	}
	total := m.sums.addUsage(usage, pods, now)
	summary.Node.NodeName, summary.Node.StartTime = m.node, m.started
	summary.Node.CPU.Time, summary.Node.Memory.Time = total.at, total.at
	summary.Node.CPU.UsageCoreNanoSeconds = uint64(math.Round(total.cpu * 1e9))
	return json.NewEncoder(out).Encode(summary)
}

func decodeStats(fields map[string]json.RawMessage) (pod podStats, err error) {
	for name, into := range map[string]any{"podRef": &pod.PodRef, "cpu": &pod.CPU, "memory": &pod.Memory} {
		if data, ok := fields[name]; ok {
			err = errors.Join(err, json.Unmarshal(data, into))
		}
	}
	return pod, err
}
