// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package virtualkubelet

import (
	"maps"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// podUsage is the usage of a pod, or of all pods: seconds of CPU since it started, as of a time, and bytes of memory.
type podUsage struct {
	cpu, memory float64
	at          time.Time
}

// usageSums adds up the CPU of the pods of this node to a counter. As on a real node, the counter never falls when pods go. The zero value is
// ready for use. Several clients scrape this node, and the agent's pages may come out of order.
type usageSums struct {
	mu   sync.Mutex
	cpu  float64
	at   time.Time
	last map[types.NamespacedName]podUsage
}

// resetUsage forgets all usage: the following figures are unrelated to the previous ones.
func (u *usageSums) resetUsage() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.cpu, u.at, u.last = 0, time.Time{}, nil
}

// leastUsage is reported instead of zero, which metrics-server takes for a missing figure: a node without pods would have none.
const leastUsage = 1e-9

// addUsage takes the present usage of pods, and returns the usage of the node. pods are all pods of the node: the usage of other pods is forgotten.
func (u *usageSums) addUsage(usage map[types.NamespacedName]podUsage, pods localPods, now time.Time) podUsage {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.last == nil {
		u.last = map[types.NamespacedName]podUsage{}
	}
	maps.DeleteFunc(u.last, func(pod types.NamespacedName, _ podUsage) bool { _, ours := pods[pod]; return !ours })
	memory, weights, weighted := 0.0, 0.0, 0.0
	for pod, present := range usage {
		memory += present.memory
		before := u.last[pod]
		if !present.at.After(before.at) {
			continue
		}
		delta := present.cpu - before.cpu
		if delta < 0 { // the pod was recreated
			delta = present.cpu
		}
		u.last[pod], u.cpu = present, u.cpu+delta
		weights += delta + leastUsage
		weighted += (delta + leastUsage) * float64(present.at.Sub(now))
	}
	// Kubelets measure each pod at its own time: the mean makes the rate of the sum the sum of the rates.
	if len(usage) == 0 {
		u.at = now
	} else if weights > 0 {
		if mean := now.Add(time.Duration(weighted / weights)).Round(time.Millisecond); mean.After(u.at) {
			u.at = mean
		}
	}
	return podUsage{cpu: u.cpu + leastUsage, memory: max(memory, 1), at: u.at}
}
