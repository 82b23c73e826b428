// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package v1beta1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	liqov1beta1 "liqo.io/liqo/api/core/v1beta1"
)

// RenewResource is the plural of Renew.
const RenewResource = "renews"

// RenewCertificateIssued is a condition type of a Renew: the condition CertificateIssued of the Tenant, copied.
const RenewCertificateIssued = TenantCertificateIssued

// RenewSpec names the credential to renew.
type RenewSpec struct {
	// ConsumerClusterID is the consumer's.
	ConsumerClusterID liqov1beta1.ClusterID `json:"consumerClusterID,omitempty"`
	// PublicKey is ignored: the key of the Tenant counts.
	// +kubebuilder:validation:MaxLength=16384
	PublicKey []byte `json:"publicKey,omitempty"`
	// CSR is ignored: the request of the Tenant counts.
	// +kubebuilder:validation:MaxLength=16384
	CSR          []byte       `json:"csr,omitempty"`
	IdentityType IdentityType `json:"identityType,omitempty"`
	// ResourceSliceRef is ignored: ResourceSlices carry their certificates themselves.
	ResourceSliceRef *corev1.LocalObjectReference `json:"resourceSliceRef,omitempty"`
}

// RenewStatus carries the renewed credential back.
type RenewStatus struct {
	AuthParams *AuthParams `json:"authParams,omitempty"`
	// Conditions: CertificateIssued is copied from the Tenant, or has the reason of a refusal.
	//
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// Renew brings renewed control-plane certificates from the provider to the consumer.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:categories=liqo
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type Renew struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// +optional
	Spec RenewSpec `json:"spec,omitzero"`
	// +optional
	Status RenewStatus `json:"status,omitzero"`
}

// RenewList is a list of Renews.
//
// +kubebuilder:object:root=true
type RenewList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Renew `json:"items"`
}
