// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package v1beta1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// PublicKeyResource is the plural of PublicKey.
const PublicKeyResource = "publickeies"

// PublicKeySpec is the key.
type PublicKeySpec struct {
	// PublicKey is the peer's WireGuard key, 32 bytes.
	PublicKey []byte `json:"publicKey,omitempty"`
}

// PublicKey is the key of a peer's gateway.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:categories=liqo,shortName=pk;pkies;pkey,path=publickeies
type PublicKey struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// +optional
	Spec PublicKeySpec `json:"spec,omitzero"`
}

// PublicKeyList is a list of objects of kind PublicKey.
//
// +kubebuilder:object:root=true
type PublicKeyList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []PublicKey `json:"items"`
}
