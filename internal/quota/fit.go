// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package quota

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// A Shortage is one resource of which too little is left.
type Shortage struct {
	Resource   corev1.ResourceName
	Free, Need resource.Quantity
	// Unlisted: the budget does not name the resource at all.
	Unlisted bool
}

func (s Shortage) String() string {
	if s.Unlisted {
		return fmt.Sprintf("%s quota limit not found for this peering", s.Resource)
	}
	return fmt.Sprintf("peering %s quota usage exceeded - free %s / requested %s", s.Resource, s.Free.String(), s.Need.String())
}

// Shortages is what does not fit, in order of resource names.
type Shortages []Shortage

func (s Shortages) Error() string {
	parts := make([]string, len(s))
	for i := range s {
		parts[i] = s[i].String()
	}
	return strings.Join(parts, "; ")
}

// Fit returns what is missing in budget for need on top of used, nil when everything fits. A resource that is asked for
// must be in the budget; only the number of pods may stay unlimited. What is used is never less than nothing.
func Fit(need, used, budget corev1.ResourceList) Shortages {
	var short Shortages
	for _, name := range slices.Sorted(maps.Keys(need)) {
		q := need[name]
		if q.Sign() <= 0 {
			continue
		}
		total, listed := budget[name]
		if !listed {
			if name != corev1.ResourcePods {
				short = append(short, Shortage{Resource: name, Need: q, Unlisted: true})
			}
			continue
		}
		free := total.DeepCopy()
		if taken := used[name]; taken.Sign() > 0 {
			free.Sub(taken)
		}
		if free.Cmp(q) < 0 {
			short = append(short, Shortage{Resource: name, Free: free, Need: q})
		}
	}
	return short
}

// Requests names what a strict budget misses in the pod: with set, every container must request cpu and memory; with
// equal, each of its limits must also be equal to the request.
func Requests(pod *corev1.PodSpec, set, equal bool) error {
	for _, c := range slices.Concat(pod.InitContainers, pod.Containers) {
		for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
			if q := requests(&c)[name]; set && q.Sign() <= 0 {
				return fmt.Errorf("container %q has no %s request, which this peering requires", c.Name, name)
			}
		}
		if !equal {
			continue
		}
		for _, name := range slices.Sorted(maps.Keys(requests(&c))) {
			request, limit := requests(&c)[name], c.Resources.Limits[name]
			if request.Cmp(limit) != 0 {
				return fmt.Errorf("container %q has a %s limit of %s and a request of %s, which this peering requires to be equal", c.Name, name, limit.String(), request.String())
			}
		}
	}
	return nil
}
