// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

// Package translate translates local objects to the objects requested from the provider, and the provider's status to local
// status. It is pure: the same input gives the same output.
package translate

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	liqov1beta1 "liqo.io/liqo/api/core/v1beta1"
	offv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/names"
	"liqo.io/liqo/internal/policy"
)

// Target is the destination that an object is translated for.
type Target struct {
	// Origin is this cluster and Destination the provider.
	Origin, Destination liqov1beta1.ClusterID
	// Node is the virtual node.
	Node string
	// Namespace is the remote namespace.
	Namespace string
	// Patch holds the filters and the additions of the virtual node; nil is none.
	Patch *offv1beta1.OffloadingPatch
	// Audiences are the audiences of tokens that may be sent to the provider, beside the API server; "*" is all.
	Audiences []string
	// Creator is the label value of the user who creates ShadowPods; empty leaves the label to the provider.
	Creator string
}

// Input is the input of a ShadowPod.
type Input struct {
	Target
	Pod *corev1.Pod
	// Existing is the present ShadowPod in the provider; nil before it is created.
	Existing *offv1beta1.ShadowPod
	// Only restricts changes of the existing ShadowPod to one kind, and keeps everything else; empty is all.
	Only Change
	// Claims are the names of the claims in the provider, by the volumes of the pod that mount them.
	Claims map[string]string
	// Route is how the pod reaches the API server of this cluster, nil for not at all; for an existing ShadowPod, RouteOf the ShadowPod.
	Route *APIServerRoute
}

// ShadowPod returns the ShadowPod to apply. Of an existing one only the metadata and the fields of followReferences change.
func ShadowPod(in Input) *offv1beta1.ShadowPod {
	labels := in.Labels(in.Pod.Labels)
	labels[names.OffloadingNodeName] = in.Node
	if in.Creator != "" {
		labels[names.CreatorUser] = in.Creator
	}
	annotations := in.Annotations(in.Pod.Annotations)
	annotations[names.OffloadingNamespace] = in.Pod.Namespace
	if AccessOf(in.Pod, in.Route) != AccessRemote {
		in.checkListings(annotations)
	}
	if in.Route != nil { // also if the pod's annotation was changed since: the access of an existing pod does not change
		annotations[names.APIServerRoute] = in.Route.String()
	}
	if tolerations := policy.EncodeRoleTolerations(in.Pod.Spec.Tolerations); tolerations != "" {
		annotations[names.RoleTolerations] = tolerations
	}
	annotations[names.OffloadingUID] = string(in.Pod.UID)
	if in.Only != "" && in.Only != ChangeMetadata {
		labels, annotations = maps.Clone(in.Existing.Labels), maps.Clone(in.Existing.Annotations)
	}
	out := &offv1beta1.ShadowPod{
		TypeMeta:   metav1.TypeMeta{APIVersion: offv1beta1.GroupVersion.String(), Kind: "ShadowPod"},
		ObjectMeta: metav1.ObjectMeta{Name: in.Pod.Name, Namespace: in.Namespace, Labels: labels, Annotations: annotations},
	}
	if in.Existing == nil {
		out.Spec.Pod = podSpec(in, labels)
		return out
	}
	out.Spec.Pod = *in.Existing.Spec.Pod.DeepCopy()
	followReferences(&out.Spec.Pod, in)
	return out
}

// Creator returns the creator of a ShadowPod, which saves the provider a webhook: me, or empty if unknown. The creator of an existing
// ShadowPod, nil for none, never changes.
func Creator(me string, existing metav1.Object) string {
	if me == "" || existing == nil {
		return me
	}
	return existing.GetLabels()[names.CreatorUser]
}

// podSpec copies the fields with the same meaning in both clusters. The fields left out belong to the local scheduler and node, or name
// local objects missing in the provider: nodeName, schedulerName, priority and its class, preemptionPolicy, overhead, schedulingGates,
// resourceClaims, schedulingGroup, evictionResponders, host namespaces. Readiness gates stay local, because their conditions are set
// locally. Ephemeral containers are not allowed at creation.
func podSpec(in Input, labels map[string]string) corev1.PodSpec {
	local := in.Pod.Spec.DeepCopy()
	out := corev1.PodSpec{
		Volumes:                       in.mountClaims(local.Volumes),
		InitContainers:                withoutClaims(local.InitContainers),
		Containers:                    withoutClaims(local.Containers),
		RestartPolicy:                 local.RestartPolicy,
		TerminationGracePeriodSeconds: local.TerminationGracePeriodSeconds,
		ActiveDeadlineSeconds:         local.ActiveDeadlineSeconds,
		DNSPolicy:                     local.DNSPolicy,
		DNSConfig:                     local.DNSConfig,
		NodeSelector:                  in.nodeSelector(),
		ShareProcessNamespace:         local.ShareProcessNamespace,
		SecurityContext:               local.SecurityContext,
		ImagePullSecrets:              local.ImagePullSecrets,
		Hostname:                      local.Hostname,
		Subdomain:                     local.Subdomain,
		SetHostnameAsFQDN:             local.SetHostnameAsFQDN,
		HostnameOverride:              local.HostnameOverride,
		HostAliases:                   local.HostAliases,
		Affinity:                      translateAffinity(in, labels),
		Tolerations:                   in.translateTolerations(local.Tolerations),
		RuntimeClassName:              in.runtimeClass(in.Pod),
		EnableServiceLinks:            local.EnableServiceLinks,
		TopologySpreadConstraints:     unmergeSpread(local.TopologySpreadConstraints),
		OS:                            local.OS,
		HostUsers:                     local.HostUsers,
		Resources:                     local.Resources,
	}
	if local.HostNetwork {
		withoutHostPorts(&out)
	}
	addTokenAccess(&out, in)
	return out
}

// withoutHostPorts removes the host ports added by the API server to a pod on the host network.
func withoutHostPorts(spec *corev1.PodSpec) {
	for _, c := range slices.Concat(spec.InitContainers, spec.Containers) {
		for i := range c.Ports {
			c.Ports[i].HostPort = 0
		}
	}
}

// withoutClaims drops the references to resource claims, which are objects of this cluster.
func withoutClaims(containers []corev1.Container) []corev1.Container {
	for i := range containers {
		containers[i].Resources.Claims = nil
	}
	return containers
}

func (t Target) nodeSelector() map[string]string {
	if t.Patch == nil || len(t.Patch.NodeSelector) == 0 {
		return nil
	}
	return maps.Clone(t.Patch.NodeSelector)
}

// translateTolerations returns the tolerations of the remote pod: the tolerations of the local pod, except for virtual-node and
// role taints, plus the patch's.
func (t Target) translateTolerations(local []corev1.Toleration) []corev1.Toleration {
	var out []corev1.Toleration
	for _, toleration := range local {
		// Taints of node roles refer to this cluster's nodes: the annotation RoleTolerations offers them to the provider.
		if toleration.Key != names.VirtualNodeTaint && !policy.ToleratesRole(toleration) {
			out = append(out, *toleration.DeepCopy())
		}
	}
	if t.Patch == nil {
		return out
	}
	for _, toleration := range t.Patch.Tolerations {
		if !hasToleration(out, toleration) {
			out = append(out, *toleration.DeepCopy())
		}
	}
	return out
}

func hasToleration(list []corev1.Toleration, want corev1.Toleration) bool {
	for _, current := range list {
		if current.MatchToleration(&want) && equalSeconds(current.TolerationSeconds, want.TolerationSeconds) {
			return true
		}
	}
	return false
}

func equalSeconds(a, b *int64) bool {
	if a == nil || b == nil {
		return a == b
	}
	return *a == *b
}

// runtimeClass returns the provider's runtime class: the pod's annotation, else the pod's own class, else the virtual node's.
// A class that only steers pods to virtual nodes means nothing in the provider.
func (t Target) runtimeClass(pod *corev1.Pod) *string {
	candidates := []*string{new(pod.Annotations[names.RemoteRuntimeClassName]), pod.Spec.RuntimeClassName}
	if t.Patch != nil {
		candidates = append(candidates, t.Patch.RuntimeClassName)
	}
	for i, c := range candidates {
		if c != nil && *c != "" && (i == 0 || *c != names.RuntimeClass) {
			return new(*c)
		}
	}
	return nil
}
