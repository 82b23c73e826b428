// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package network

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	offv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/names"
)

// newOffloading returns the NamespaceOffloading of the consumer's namespace for the tested providers.
func (f *fixtures) newOffloading() *offv1beta1.NamespaceOffloading {
	var ids []string
	for _, p := range f.providers {
		ids = append(ids, p.ID)
	}
	nso := &offv1beta1.NamespaceOffloading{Spec: offv1beta1.NamespaceOffloadingSpec{
		NamespaceMappingStrategy: offv1beta1.SelectedNameMappingStrategyType, RemoteNamespaceName: f.providers[0].servers,
		PodOffloadingStrategy: offv1beta1.LocalAndRemotePodOffloadingStrategyType,
		ClusterSelector:       &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchExpressions: ofClusters(ids...)}}},
	}}
	nso.Namespace, nso.Name = f.consumer.servers, names.NamespaceOffloading
	nso.SetGroupVersionKind(offv1beta1.GroupVersion.WithKind("NamespaceOffloading"))
	return nso
}

func ofClusters(ids ...string) []corev1.NodeSelectorRequirement {
	return []corev1.NodeSelectorRequirement{{Key: names.RemoteClusterID, Operator: corev1.NodeSelectorOpIn, Values: ids}}
}

// newPod returns a pod that a restricted namespace admits, unless the pod uses the host network.
func (u purpose) newPod(namespace, name, image string, args ...string) *corev1.Pod {
	pod := &corev1.Pod{Spec: corev1.PodSpec{
		AutomountServiceAccountToken:  new(false),
		EnableServiceLinks:            new(false),
		TerminationGracePeriodSeconds: new(int64(1)),
		SecurityContext: &corev1.PodSecurityContext{
			RunAsNonRoot: new(true), RunAsUser: new(int64(testUser)), RunAsGroup: new(int64(testUser)),
			SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
		},
		Containers: []corev1.Container{{
			Name: args[0], Image: image, ImagePullPolicy: corev1.PullIfNotPresent, Args: args,
			TerminationMessagePolicy: corev1.TerminationMessageFallbackToLogsOnError,
			Resources:                corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("5m"), corev1.ResourceMemory: resource.MustParse("32Mi")}},
			SecurityContext: &corev1.SecurityContext{
				AllowPrivilegeEscalation: new(false), ReadOnlyRootFilesystem: new(true), Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
			},
		}},
	}}
	pod.Namespace, pod.Name, pod.Labels = namespace, name, map[string]string{names.AppManagedBy: u.manager}
	pod.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Pod"))
	return pod
}

// onNode returns a node affinity. Unlike spec.nodeName, the affinity leaves the check of the node's resources to the scheduler.
func onNode(name string) *corev1.Affinity {
	return nodeAffinity(corev1.NodeSelectorTerm{MatchFields: []corev1.NodeSelectorRequirement{
		{Key: metav1.ObjectNameField, Operator: corev1.NodeSelectorOpIn, Values: []string{name}},
	}})
}

func nodeAffinity(term corev1.NodeSelectorTerm) *corev1.Affinity {
	return &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
		RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{term}},
	}}
}
