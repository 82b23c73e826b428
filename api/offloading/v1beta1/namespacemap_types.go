// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package v1beta1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// NamespaceMapResource is the plural of NamespaceMap.
const NamespaceMapResource = "namespacemaps"

// MappingPhase is how far the provider got with a twin namespace.
//
// +kubebuilder:validation:Enum=Accepted;CreationLoopBackOff;Terminating
type MappingPhase string

// Phases of a mapping.
const (
	MappingAccepted            MappingPhase = "Accepted"
	MappingCreationLoopBackOff MappingPhase = "CreationLoopBackOff"
	MappingTerminating         MappingPhase = "Terminating"
)

// RemoteNamespaceStatus is the provider's answer about one namespace.
type RemoteNamespaceStatus struct {
	// RemoteNamespace is the name of the twin.
	RemoteNamespace string       `json:"remoteNamespace,omitempty"`
	Phase           MappingPhase `json:"phase,omitempty"`
}

// NamespaceMapSpec is what the consumer wants.
type NamespaceMapSpec struct {
	// DesiredMapping has the remote name of each local namespace.
	DesiredMapping map[string]string `json:"desiredMapping,omitempty"`
}

// NamespaceMapStatus is what the provider has.
type NamespaceMapStatus struct {
	// CurrentMapping has the state of each local namespace.
	CurrentMapping map[string]RemoteNamespaceStatus `json:"currentMapping,omitempty"`
	// ProviderVersion is that of Liqo at the provider.
	ProviderVersion string `json:"providerVersion,omitempty"`
	// ProviderCapabilities are what that Liqo does that a consumer has to know of.
	// +listType=atomic
	ProviderCapabilities []string `json:"providerCapabilities,omitempty"`
}

// NamespaceMap pairs the namespaces of a consumer with their twins in one provider.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:categories=liqo,shortName=nm;nsmap
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Local",type=string,JSONPath=`.metadata.labels.liqo\.io/replication`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type NamespaceMap struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// +optional
	Spec NamespaceMapSpec `json:"spec,omitzero"`
	// +optional
	Status NamespaceMapStatus `json:"status,omitzero"`
}

// NamespaceMapList is a list of objects of kind NamespaceMap.
//
// +kubebuilder:object:root=true
type NamespaceMapList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []NamespaceMap `json:"items"`
}
