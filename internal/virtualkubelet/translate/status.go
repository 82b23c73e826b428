// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package translate

import (
	"cmp"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"liqo.io/liqo/internal/policy"
	"liqo.io/liqo/internal/prefix"
)

// StatusInput is the input of the local status of an offloaded pod.
type StatusInput struct {
	Local, Remote *corev1.Pod
	// HostIPs are the addresses of the virtual node.
	HostIPs []string
	// IPs translates the addresses of the pod.
	IPs PodIPs
	// Restarts is the result of Count for this pair of pods.
	Restarts Restarts
}

// PodStatus returns the remote status in terms of this cluster. An ended pod stays ended, regardless of later remote statuses,
// and a running pod stays running while the provider recreates the pod.
func PodStatus(in StatusInput) corev1.PodStatus {
	switch {
	case policy.Ended(in.Local.Status.Phase) && in.Remote.Status.Phase != in.Local.Status.Phase:
		return *in.Local.Status.DeepCopy()
	case Replaceable(in.Remote) && in.Local.DeletionTimestamp.IsZero():
		return Missing(in.Local)
	}
	out := cleanStatus(in.Local, &in.Remote.Status)
	clean := *in.Remote
	clean.Status = out
	in.Remote = &clean
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

// PodIPs translates addresses of the provider to local ones. The zero value publishes none.
type PodIPs struct {
	// Keep keeps the addresses of the local pod: their present translation is being looked up.
	Keep bool
	// Peer has the networks of the provider. Addresses outside all of them mean nothing locally.
	Peer prefix.Map
}

func (p PodIPs) translatePodIPs(in StatusInput) (first string, all []corev1.PodIP) {
	if p.Keep {
		local := in.Local.Status.DeepCopy()
		return local.PodIP, local.PodIPs
	}
	remoteIPs := in.Remote.Status.PodIPs
	if len(remoteIPs) == 0 && in.Remote.Status.PodIP != "" {
		remoteIPs = []corev1.PodIP{{IP: in.Remote.Status.PodIP}}
	}
	for _, ip := range remoteIPs {
		addr, err := netip.ParseAddr(ip.IP)
		if err != nil {
			continue
		}
		if here, ok := p.Peer.ToLocal(addr); ok {
			all = append(all, corev1.PodIP{IP: here.String()})
		} else if p.Peer.IsAwaited(addr) {
			all = p.keepPodIPs(all, in.Local, addr)
		}
	}
	if len(all) > 0 {
		first = all[0].IP
	}
	return first, all
}

// keepPodIPs adds previous addresses of a local pod whose network waits for a prefix: addresses in no other prefix.
func (p PodIPs) keepPodIPs(all []corev1.PodIP, local *corev1.Pod, remote netip.Addr) []corev1.PodIP {
	for _, ip := range local.Status.PodIPs {
		had, err := netip.ParseAddr(ip.IP)
		if err == nil && had.Is4() == remote.Is4() && !p.Peer.ContainsLocal(had) && !slices.Contains(all, ip) {
			all = append(all, ip)
		}
	}
	return all
}

// advancePhase returns the later of two phases of one pod.
func advancePhase(local, remote corev1.PodPhase) corev1.PodPhase {
	switch remote {
	case corev1.PodRunning, corev1.PodSucceeded, corev1.PodFailed:
		return remote
	}
	return cmp.Or(local, corev1.PodPending)
}

// keepLocal restores fields unknown to the remote cluster, and fields that the API server refuses to change.
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

// isResized reports whether the remote kubelet has observed the resources of the local pod: clients that wait for a resize
// wait for the generation.
func isResized(local, remote *corev1.Pod) bool {
	if seen := remote.Status.ObservedGeneration; seen != 0 && seen < remote.Generation {
		return false
	}
	for _, lists := range [][2][]corev1.Container{{local.Spec.InitContainers, remote.Spec.InitContainers}, {local.Spec.Containers, remote.Spec.Containers}} {
		for _, want := range lists[0] {
			for _, current := range lists[1] {
				if current.Name == want.Name && !(includesResources(current.Resources.Requests, want.Resources.Requests) && includesResources(current.Resources.Limits, want.Resources.Limits)) {
					return false
				}
			}
		}
	}
	return true
}

func includesResources(current, want corev1.ResourceList) bool {
	for name, quantity := range want {
		if is, ok := current[name]; !ok || is.Cmp(quantity) != 0 {
			return false
		}
	}
	return true
}
