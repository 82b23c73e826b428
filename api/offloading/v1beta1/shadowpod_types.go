// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package v1beta1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ShadowPodResource is the plural of ShadowPod.
const ShadowPodResource = "shadowpods"

// ShadowPodSpec is the pod to make.
type ShadowPodSpec struct {
	// Pod is opaque to the schema, its amounts aside: the API server validates it when the Pod is made.
	//
	// Whoever applies it owns it as a whole: an owner for each of its fields would be most of what the API server does
	// with a ShadowPod.
	//
	// +optional
	// +structType=atomic
	// +kubebuilder:pruning:PreserveUnknownFields
	Pod corev1.PodSpec `json:"pod,omitzero"`
}

// ShadowPodAccepted is False while the provider does not make the pod; it is absent once it did.
const ShadowPodAccepted = "Accepted"

// Reasons of ShadowPodAccepted.
const (
	// ReasonOverQuota: the pod starts when other pods of its user leave enough of the Quota.
	ReasonOverQuota = "OverQuota"
	// ReasonRefused: the provider's policy, its API server or its admission does not take the pod as it is.
	ReasonRefused = "Refused"
	// ReasonNetworkNotReady: the pod has a token for the API server of the consumer, and the way there is not known yet.
	ReasonNetworkNotReady = "NetworkNotReady"
)

// ShadowPodStatus is how the pod fares.
type ShadowPodStatus struct {
	// Phase is that of the pod.
	//
	// +required
	// +kubebuilder:default=Unknown
	// +kubebuilder:validation:Enum=Pending;Running;Succeeded;Failed;Unknown
	Phase corev1.PodPhase `json:"phase,omitempty"`
	// Conditions tell the consumer why its pod is not made. They are absent while there is nothing to tell.
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// ShadowPod asks the provider for a pod, and survives that pod.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:categories=liqo,shortName=shp;shpod
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Status",type=string,JSONPath=`.status.phase`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type ShadowPod struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// +optional
	Spec ShadowPodSpec `json:"spec,omitzero"`
	// +optional
	Status ShadowPodStatus `json:"status,omitzero"`
}

// ShadowPodList is a list of objects of kind ShadowPod.
//
// +kubebuilder:object:root=true
type ShadowPodList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []ShadowPod `json:"items"`
}
