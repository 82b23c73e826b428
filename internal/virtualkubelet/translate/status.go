// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package translate

import (
	"cmp"
	"net/netip"

	corev1 "k8s.io/api/core/v1"

	"liqo.io/liqo/internal/policy"
	"liqo.io/liqo/internal/prefix"
)

// StatusInput is what the local status of an offloaded pod is made from.
type StatusInput struct {
	Local, Remote *corev1.Pod
	// HostIPs are the addresses of the virtual node.
	HostIPs []string
	// IPs say what the addresses of the pod are here.
	IPs PodIPs
	// Restarts is what Count returned for this pair of pods.
	Restarts Restarts
}

// PodStatus is the remote status as this cluster sees it. A pod that ended stays ended, whatever the provider says later,
// and one that runs goes on running while the provider makes its pod again.
func PodStatus(in StatusInput) corev1.PodStatus {
	switch {
	case policy.Ended(in.Local.Status.Phase) && in.Remote.Status.Phase != in.Local.Status.Phase:
		return *in.Local.Status.DeepCopy()
	case Replaceable(in.Remote) && in.Local.DeletionTimestamp.IsZero():
		return Missing(in.Local)
	}
	out := believedStatus(in.Local, &in.Remote.Status)
	believed := *in.Remote
	believed.Status = out
	in.Remote = &believed
	keepLocal(&out, in)
	out.HostIP, out.HostIPs = "", nil
	for _, ip := range in.HostIPs {
		out.HostIPs = append(out.HostIPs, corev1.HostIP{IP: ip})
	}
	if len(in.HostIPs) > 0 {
		out.HostIP = in.HostIPs[0]
	}
	out.PodIP, out.PodIPs = in.IPs.translatePodIPs(in)
	pod := in.Local
	out.ContainerStatuses = translateContainers(out.ContainerStatuses, pod.Status.ContainerStatuses, pod, pod.Spec.Containers, in.Restarts)
	out.InitContainerStatuses = translateContainers(out.InitContainerStatuses, pod.Status.InitContainerStatuses, pod, pod.Spec.InitContainers, in.Restarts)
	out.EphemeralContainerStatuses = ephemeralStatuses(out.EphemeralContainerStatuses, pod.Status.EphemeralContainerStatuses)
	out.Conditions = translateConditions(in)
	return out
}

// PodIPs say what addresses of the provider are here. The zero value shows none.
type PodIPs struct {
	// Keep leaves those that the local pod has: what they are now is being found out.
	Keep bool
	// Peer has the networks of the provider. Addresses in none of them mean nothing here.
	Peer prefix.Map
}

func (p PodIPs) translatePodIPs(in StatusInput) (first string, all []corev1.PodIP) {
	if p.Keep {
		local := in.Local.Status.DeepCopy()
		return local.PodIP, local.PodIPs
	}
	there := in.Remote.Status.PodIPs
	if len(there) == 0 && in.Remote.Status.PodIP != "" {
		there = []corev1.PodIP{{IP: in.Remote.Status.PodIP}}
	}
	for _, ip := range there {
		addr, err := netip.ParseAddr(ip.IP)
		if err != nil {
			continue
		}
		if here, ok := p.Peer.ToLocal(addr); ok {
			all = append(all, corev1.PodIP{IP: here.String()})
		}
	}
	if len(all) > 0 {
		first = all[0].IP
	}
	return first, all
}

// advancePhase is the later of two phases of one pod.
func advancePhase(local, remote corev1.PodPhase) corev1.PodPhase {
	switch remote {
	case corev1.PodRunning, corev1.PodSucceeded, corev1.PodFailed:
		return remote
	}
	return cmp.Or(local, corev1.PodPending)
}

// keepLocal restores what the remote cluster cannot know, or what the API server refuses to change.
func keepLocal(out *corev1.PodStatus, in StatusInput) {
	local := in.Local.Status.DeepCopy()
	out.Phase = advancePhase(local.Phase, out.Phase)
	out.QOSClass = local.QOSClass
	out.NominatedNodeName = local.NominatedNodeName
	out.ResourceClaimStatuses = local.ResourceClaimStatuses
	out.ExtendedResourceClaimStatus = local.ExtendedResourceClaimStatus
	out.ObservedGeneration = local.ObservedGeneration
	if isResized(in.Local, in.Remote) {
		out.ObservedGeneration = in.Local.Generation
	}
}

// isResized tells whether the resources of the local pod are those that the remote kubelet knows of: who waits for a resize
// waits for the generation.
func isResized(local, remote *corev1.Pod) bool {
	if seen := remote.Status.ObservedGeneration; seen != 0 && seen < remote.Generation {
		return false
	}
	for _, lists := range [][2][]corev1.Container{{local.Spec.InitContainers, remote.Spec.InitContainers}, {local.Spec.Containers, remote.Spec.Containers}} {
		for _, want := range lists[0] {
			for _, have := range lists[1] {
				if have.Name == want.Name && !(includesResources(have.Resources.Requests, want.Resources.Requests) && includesResources(have.Resources.Limits, want.Resources.Limits)) {
					return false
				}
			}
		}
	}
	return true
}

func includesResources(have, want corev1.ResourceList) bool {
	for name, quantity := range want {
		if is, ok := have[name]; !ok || is.Cmp(quantity) != 0 {
			return false
		}
	}
	return true
}
