// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package translate

import (
	"maps"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"liqo.io/liqo/internal/policy"
)

// TrimPolicyPod trims a pod to the fields that decide whether and under which addresses the pod is a peer of NetworkPolicies.
func TrimPolicyPod(pod *corev1.Pod) {
	trimmed := corev1.Pod{
		Spec:   corev1.PodSpec{HostNetwork: pod.Spec.HostNetwork},
		Status: corev1.PodStatus{Phase: pod.Status.Phase, PodIPs: pod.Status.PodIPs},
	}
	trimmed.Namespace, trimmed.Name, trimmed.UID, trimmed.ResourceVersion, trimmed.Labels = pod.Namespace, pod.Name, pod.UID, pod.ResourceVersion, pod.Labels
	*pod = trimmed
}

// IsSamePolicyPod reports whether a change of a pod does not concern NetworkPolicies.
func IsSamePolicyPod(old, now *corev1.Pod) bool {
	return maps.Equal(old.Labels, now.Labels) && slices.Equal(old.Status.PodIPs, now.Status.PodIPs) && policy.Ended(old.Status.Phase) == policy.Ended(now.Status.Phase)
}

// NewPolicyPod returns a pod with its relevant addresses, and false if the pod has none of its own.
func NewPolicyPod(pod *corev1.Pod, counts func(netip.Addr) bool) (PolicyPod, bool) {
	out := PolicyPod{Labels: pod.Labels}
	if pod.Spec.HostNetwork || policy.Ended(pod.Status.Phase) {
		return out, false
	}
	for _, ip := range pod.Status.PodIPs {
		if a, err := netip.ParseAddr(ip.IP); err == nil && counts(a) {
			out.Addresses = append(out.Addresses, a)
		}
	}
	return out, len(out.Addresses) > 0
}
