// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// CheckAmounts returns an error that names a negative amount in the pod, or nil. Kubernetes rejects such a Pod only on
// creation: until then, the amount would reduce the usage.
func CheckAmounts(pod *corev1.PodSpec) error {
	for i := range pod.Containers {
		if err := checkRequirements(fmt.Sprintf("container %q", pod.Containers[i].Name), &pod.Containers[i].Resources); err != nil {
			return err
		}
	}
	for i := range pod.InitContainers {
		if err := checkRequirements(fmt.Sprintf("container %q", pod.InitContainers[i].Name), &pod.InitContainers[i].Resources); err != nil {
			return err
		}
	}
	for i := range pod.EphemeralContainers {
		if err := checkRequirements(fmt.Sprintf("container %q", pod.EphemeralContainers[i].Name), &pod.EphemeralContainers[i].Resources); err != nil {
			return err
		}
	}
	if err := checkRequirements("the pod", pod.Resources); err != nil {
		return err
	}
	if err := checkAmounts("the overhead of the pod", pod.Overhead); err != nil {
		return err
	}
	for i := range pod.Volumes {
		if err := checkVolume(&pod.Volumes[i]); err != nil {
			return err
		}
	}
	return nil
}

func checkVolume(v *corev1.Volume) error {
	of := fmt.Sprintf("volume %q", v.Name)
	if v.EmptyDir != nil && v.EmptyDir.SizeLimit != nil && v.EmptyDir.SizeLimit.Sign() < 0 {
		return negativeError(of, "a size limit", *v.EmptyDir.SizeLimit)
	}
	if v.Ephemeral == nil || v.Ephemeral.VolumeClaimTemplate == nil {
		return nil
	}
	claim := v.Ephemeral.VolumeClaimTemplate.Spec.Resources
	return checkRequirements(of, &corev1.ResourceRequirements{Requests: claim.Requests, Limits: claim.Limits})
}

func checkRequirements(of string, r *corev1.ResourceRequirements) error {
	if r == nil {
		return nil
	}
	if err := checkAmounts(of, r.Requests); err != nil {
		return err
	}
	return checkAmounts(of, r.Limits)
}

func checkAmounts(of string, list corev1.ResourceList) error {
	for _, name := range slices.Sorted(maps.Keys(list)) {
		if q := list[name]; q.Sign() < 0 {
			return negativeError(of, string(name), q)
		}
	}
	return nil
}

func negativeError(of, what string, q resource.Quantity) error {
	return fmt.Errorf("%s has %s of %s: an amount cannot be negative", of, what, q.String())
}

// clampNegative returns list with zero instead of negative amounts: no pod frees capacity for another.
func clampNegative(list corev1.ResourceList) corev1.ResourceList {
	if checkAmounts("", list) == nil {
		return list
	}
	out := maps.Clone(list)
	for name, q := range out {
		if q.Sign() < 0 {
			out[name] = resource.Quantity{Format: q.Format}
		}
	}
	return out
}
