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
	// Pod is opaque to the schema, except for its amounts: the API server validates the Pod at its creation.
	//
	// A manager owns the whole field: an owner for each part of the pod would be most of the API server's work for a
	// ShadowPod.
	//
	// +optional
	// +structType=atomic
	// +kubebuilder:pruning:PreserveUnknownFields
	Pod corev1.PodSpec `json:"pod,omitzero"`
}

// ShadowPodAccepted is False while the provider does not make the pod, and absent afterwards.
const ShadowPodAccepted = "Accepted"

// Reasons of ShadowPodAccepted.
const (
	// ReasonOverQuota: the pod starts when other pods of its user leave enough of the Quota.
	ReasonOverQuota = "OverQuota"
	// ReasonRefused: the provider's policy, API server or admission refuses the pod.
	ReasonRefused = "Refused"
	// ReasonNetworkNotReady: the pod has a token for the API server of the consumer, whose address is not known yet.
	ReasonNetworkNotReady = "NetworkNotReady"
)

// ShadowPodStatus is how the pod fares.
type ShadowPodStatus struct {
	// Phase is the phase of the pod.
	//
	// +required
	// +kubebuilder:default=Unknown
	// +kubebuilder:validation:Enum=Pending;Running;Succeeded;Failed;Unknown
	Phase corev1.PodPhase `json:"phase,omitempty"`
	// Conditions explain to the consumer why its pod is not made; otherwise absent.
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// ShadowPod requests a pod of the provider, and survives the loss of the pod.
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
