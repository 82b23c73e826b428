// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package v1beta1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	liqov1beta1 "liqo.io/liqo/api/core/v1beta1"
)

// IdentityResource is the plural of Identity.
const IdentityResource = "identities"

// IdentityType is the purpose of an Identity.
type IdentityType string

// Uses of an Identity.
const (
	// ControlPlaneIdentityType is used to replicate objects to the provider.
	ControlPlaneIdentityType IdentityType = "ControlPlane"
	// ResourceSliceIdentityType is used by the virtual kubelet of one slice.
	ResourceSliceIdentityType IdentityType = "ResourceSlice"
)

// IdentitySpec is a credential to act on a provider.
type IdentitySpec struct {
	// ClusterID is the provider's.
	ClusterID liqov1beta1.ClusterID `json:"clusterID,omitempty"`
	// +kubebuilder:validation:Enum=ControlPlane;ResourceSlice
	Type IdentityType `json:"type,omitempty"`
	// +optional
	AuthParams AuthParams `json:"authParams,omitzero"`
	// Namespace is the tenant namespace in the provider.
	Namespace *string `json:"namespace,omitempty"`
}

// IdentityStatus tells where the credential can be found.
type IdentityStatus struct {
	// KubeconfigSecretRef names the Secret with the kubeconfig, in the namespace of the Identity.
	KubeconfigSecretRef *corev1.LocalObjectReference `json:"kubeconfigSecretRef,omitempty"`
	// TunnelProxy is set if the proxy URL of authParams is that of the provider's API server proxy, in the tunnel.
	TunnelProxy *TunnelProxy `json:"tunnelProxy,omitempty"`
}

// TunnelProxy is the API server proxy of a provider, reached through the tunnel between the networks.
type TunnelProxy struct {
	// ConfiguredURL is the proxy URL of authParams, with the address that the proxy had.
	ConfiguredURL string `json:"configuredURL"`
	// URL has the present address of the proxy. The kubeconfig has it.
	URL string `json:"url"`
}

// Identity is a credential of this cluster on a provider.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:categories=liqo,shortName=id
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Type",type=string,JSONPath=`.spec.type`
// +kubebuilder:printcolumn:name="KubeconfigSecret",type=string,priority=1,JSONPath=`.status.kubeconfigSecretRef.name`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type Identity struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// +optional
	Spec IdentitySpec `json:"spec,omitzero"`
	// +optional
	Status IdentityStatus `json:"status,omitzero"`
}

// IdentityList is a list of Identities.
//
// +kubebuilder:object:root=true
type IdentityList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Identity `json:"items"`
}
