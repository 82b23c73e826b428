// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package virtualkubelet

import (
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	offv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/multicluster"
	"liqo.io/liqo/internal/names"
	"liqo.io/liqo/internal/policy"
)

// slimLocal reduces a pod of this node to the fields that tell whether the pod is reflected, and whether it ended: the engine caches all
// reflected pods, and the few others are read when reconciled.
func slimLocal(obj any) (any, error) {
	if pod, ok := obj.(*corev1.Pod); ok {
		spec := corev1.PodSpec{NodeName: pod.Spec.NodeName}
		if policy.KeptOff(&corev1.Pod{ObjectMeta: pod.ObjectMeta}) { // unless it has the right toleration
			spec.Tolerations = pod.Spec.Tolerations
		}
		pod.ManagedFields, pod.Annotations = nil, nil
		pod.Spec, pod.Status = spec, corev1.PodStatus{Phase: pod.Status.Phase}
	}
	return obj, nil
}

// slimShadow drops the spec of a ShadowPod: the spec is almost always as created, according to the metadata.
var slimShadow = &multicluster.Transform{Apply: func(obj client.Object) {
	obj.SetManagedFields(nil)
	if shadow, ok := obj.(*offv1beta1.ShadowPod); ok {
		shadow.Spec = offv1beta1.ShadowPodSpec{}
	}
}}

// slimRemote reduces a remote pod to the fields in use: the status, the owner, the resources of the containers, and the
// grace period. The rest of the spec is in the ShadowPod.
var slimRemote = &multicluster.Transform{Apply: func(obj client.Object) {
	pod, ok := obj.(*corev1.Pod)
	if !ok {
		return
	}
	annotations := map[string]string{}
	if uid, ok := pod.Annotations[names.OffloadingUID]; ok {
		annotations[names.OffloadingUID] = uid
	}
	pod.ManagedFields, pod.OwnerReferences, pod.Annotations = nil, nil, annotations
	pod.Spec = corev1.PodSpec{
		InitContainers: slimContainers(pod.Spec.InitContainers), Containers: slimContainers(pod.Spec.Containers),
		TerminationGracePeriodSeconds: pod.Spec.TerminationGracePeriodSeconds,
	}
}}

// slimTokens drops the token values.
var slimTokens = &multicluster.Transform{Apply: func(obj client.Object) {
	obj.SetManagedFields(nil)
	if secret, ok := obj.(*corev1.Secret); ok {
		for key := range secret.Data {
			secret.Data[key] = nil
		}
	}
}}

func slimContainers(of []corev1.Container) []corev1.Container {
	out := make([]corev1.Container, 0, len(of))
	for i := range of {
		out = append(out, corev1.Container{Name: of[i].Name, Resources: of[i].Resources})
	}
	return out
}
