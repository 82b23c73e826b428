// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"fmt"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	offv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/names"
	"liqo.io/liqo/internal/network/plan"
	"liqo.io/liqo/internal/policy"
)

// accessKinds returns the kinds that the restrictions of pods depend on, besides pods.
func (o Options) accessKinds() []client.Object {
	switch {
	case o.OffloadedOnly:
		return []client.Object{&corev1.Namespace{}, &offv1beta1.NamespaceOffloading{}}
	case o.IsolateConsumers:
		return []client.Object{&corev1.Namespace{}}
	}
	return nil
}

// podAccess returns the restrictions of the pods of this node.
func (n *nodeAgent) podAccess(ctx context.Context) (plan.PodAccess, error) {
	out := plan.PodAccess{OffloadedOnly: n.options.OffloadedOnly, IsolateConsumers: n.options.IsolateConsumers}
	if len(n.options.accessKinds()) == 0 {
		return out, nil
	}
	var namespaces corev1.NamespaceList
	if err := n.client.List(ctx, &namespaces); err != nil {
		return out, fmt.Errorf("listing namespaces: %w", err)
	}
	consumers, reachable := map[string]string{}, map[string]bool{}
	for i := range namespaces.Items {
		ns := &namespaces.Items[i]
		reachable[ns.Name] = ns.Labels[names.ReachableFromPeers] == "true"
		if ns.Annotations[names.ManagedByNamespaceMap] == "" { // tenant namespaces have the label, too
			consumers[ns.Name] = ""
		} else if id := ns.Labels[names.RemoteClusterID]; id != "" {
			consumers[ns.Name] = id
		}
	}
	if n.options.OffloadedOnly {
		var offloadings offv1beta1.NamespaceOffloadingList
		if err := n.client.List(ctx, &offloadings); err != nil {
			return out, fmt.Errorf("listing NamespaceOffloadings: %w", err)
		}
		for i := range offloadings.Items {
			reachable[offloadings.Items[i].Namespace] = true
		}
	}
	var pods corev1.PodList
	if err := n.client.List(ctx, &pods); err != nil {
		return out, fmt.Errorf("listing the pods of the node: %w", err)
	}
	for i := range pods.Items {
		if pod := &pods.Items[i]; !pod.Spec.HostNetwork && !policy.Ended(pod.Status.Phase) {
			consumer, known := consumers[pod.Namespace]
			out.Pods = append(out.Pods, localPod(pod, plan.LocalPod{Consumer: consumer, Unknown: !known, Reachable: reachable[pod.Namespace]}))
		}
	}
	return out, nil
}

// localPod adds a pod to the decisions of its namespace. The label of a pod that may be a consumer's does not count, because the consumer writes the
// label.
func localPod(pod *corev1.Pod, out plan.LocalPod) plan.LocalPod {
	out.Of, out.APIServer = plan.Object{Kind: "Pod", Namespace: pod.Namespace, Name: pod.Name}, hasToken(pod)
	out.Reachable = out.Reachable || out.Consumer == "" && !out.Unknown && pod.Labels[names.ReachableFromPeers] == "true"
	for _, ip := range pod.Status.PodIPs {
		if a, err := netip.ParseAddr(ip.IP); err == nil {
			out.Addresses = append(out.Addresses, a)
		}
	}
	return out
}

// hasToken reports whether the pod has a token of a ServiceAccount of this cluster.
func hasToken(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Spec.Volumes, func(v corev1.Volume) bool {
		return v.Projected != nil && slices.ContainsFunc(v.Projected.Sources, func(s corev1.VolumeProjection) bool { return s.ServiceAccountToken != nil })
	})
}

// SlimPod trims a pod to the fields that locate the pod and decide its restrictions.
func SlimPod(obj any) (any, error) {
	pod, ok := obj.(*corev1.Pod)
	if !ok {
		return obj, nil
	}
	out := &corev1.Pod{
		Spec:   corev1.PodSpec{HostNetwork: pod.Spec.HostNetwork, NodeName: pod.Spec.NodeName},
		Status: corev1.PodStatus{Phase: pod.Status.Phase, PodIPs: pod.Status.PodIPs},
	}
	out.Namespace, out.Name, out.UID, out.ResourceVersion = pod.Namespace, pod.Name, pod.UID, pod.ResourceVersion
	if value, ok := pod.Labels[names.ReachableFromPeers]; ok {
		out.Labels = map[string]string{names.ReachableFromPeers: value}
	}
	if hasToken(pod) {
		token := corev1.VolumeProjection{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{}}
		out.Spec.Volumes = []corev1.Volume{{VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{token}}}}}
	}
	return out, nil
}

// SlimNamespace trims a namespace to the metadata that restrictions of pods depend on.
func SlimNamespace(obj any) (any, error) {
	ns, ok := obj.(*corev1.Namespace)
	if !ok {
		return obj, nil
	}
	out := &corev1.Namespace{}
	out.Name, out.UID, out.ResourceVersion = ns.Name, ns.UID, ns.ResourceVersion
	out.Labels, out.Annotations = map[string]string{}, map[string]string{}
	for _, key := range []string{names.ReachableFromPeers, names.RemoteClusterID} {
		if value, ok := ns.Labels[key]; ok {
			out.Labels[key] = value
		}
	}
	if value, ok := ns.Annotations[names.ManagedByNamespaceMap]; ok {
		out.Annotations[names.ManagedByNamespaceMap] = value
	}
	return out, nil
}
