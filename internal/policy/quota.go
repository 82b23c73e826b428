// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	offv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
)

// CheckQuota returns why a new pod does not fit into the budget of its user on top of the usage of the user's pods, or nil.
func CheckQuota(budget *offv1beta1.QuotaSpec, pod *corev1.PodSpec, used corev1.ResourceList) error {
	if budget.Cordoned != nil && *budget.Cordoned {
		return fmt.Errorf("user is cordoned: the pods of %q run on, and new ones are refused", budget.User)
	}
	hard := budget.LimitsEnforcement == offv1beta1.HardLimitsEnforcement
	if err := CheckRequests(pod, hard || budget.LimitsEnforcement == offv1beta1.SoftLimitsEnforcement, hard); err != nil {
		return err
	}
	if short := FindShortages(PodRequests(pod), used, budget.Resources); short != nil {
		return short
	}
	return nil
}

// Shortage is one resource with too little free capacity.
type Shortage struct {
	Resource   corev1.ResourceName
	Free, Need resource.Quantity
	// Unlisted is true if the budget does not list the resource.
	Unlisted bool
}

func (s Shortage) String() string {
	if s.Unlisted {
		return fmt.Sprintf("%s quota limit not found for this peering", s.Resource)
	}
	return fmt.Sprintf("peering %s quota usage exceeded - free %s / requested %s", s.Resource, s.Free.String(), s.Need.String())
}

// Shortages are the resources that do not fit, sorted by name.
type Shortages []Shortage

func (s Shortages) Error() string {
	parts := make([]string, len(s))
	for i := range s {
		parts[i] = s[i].String()
	}
	return strings.Join(parts, "; ")
}

// FindShortages returns the shortages of need in budget on top of used, nil if need fits. The budget must list each requested resource;
// only the number of pods may be unlimited. Negative usage counts as zero.
func FindShortages(need, used, budget corev1.ResourceList) Shortages {
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

// CheckRequests returns an error that names the first violation of a strict budget by the pod: with set, every container must
// request cpu and memory; with equal, the limits must also equal the requests.
func CheckRequests(pod *corev1.PodSpec, set, equal bool) error {
	for _, c := range slices.Concat(pod.InitContainers, pod.Containers) {
		for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
			if q := containerRequests(&c)[name]; set && q.Sign() <= 0 {
				return fmt.Errorf("container %q has no %s request, which this peering requires", c.Name, name)
			}
		}
		if !equal {
			continue
		}
		for _, name := range slices.Sorted(maps.Keys(containerRequests(&c))) {
			request, limit := containerRequests(&c)[name], c.Resources.Limits[name]
			if request.Cmp(limit) != 0 {
				return fmt.Errorf("container %q has a %s limit of %s and a request of %s, which this peering requires to be equal", c.Name, name, limit.String(), request.String())
			}
		}
	}
	return nil
}
