// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package v1beta1

import (
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ShadowEndpointSliceResource is the plural of ShadowEndpointSlice.
const ShadowEndpointSliceResource = "shadowendpointslices"

// EndpointSliceTemplate is the EndpointSlice to make.
type EndpointSliceTemplate struct {
	// Endpoints as the consumer sees them.
	Endpoints []discoveryv1.Endpoint `json:"endpoints,omitempty"`
	// Ports of all endpoints.
	Ports []discoveryv1.EndpointPort `json:"ports,omitempty"`
	// AddressType of all endpoints: IPv4 or IPv6.
	//
	// +kubebuilder:validation:Type=string
	AddressType discoveryv1.AddressType `json:"addressType,omitempty"`
}

// ShadowEndpointSliceSpec is the EndpointSlice to make.
type ShadowEndpointSliceSpec struct {
	// +optional
	Template EndpointSliceTemplate `json:"template,omitzero"`
}

// ShadowEndpointSlice requests an EndpointSlice of the provider, which translates the addresses.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:categories=liqo,shortName=shes;sheps;seps
type ShadowEndpointSlice struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// +optional
	Spec ShadowEndpointSliceSpec `json:"spec,omitzero"`
}

// ShadowEndpointSliceList is a list of objects of kind ShadowEndpointSlice.
//
// +kubebuilder:object:root=true
type ShadowEndpointSliceList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []ShadowEndpointSlice `json:"items"`
}
