// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
)

// NetworkResource is the plural of Network.
const NetworkResource = "networks"

// NetworkSpec is the CIDR wished for.
//
// +kubebuilder:validation:XValidation:rule="(has(self.preAllocated) ? self.preAllocated : 0) == (has(oldSelf.preAllocated) ? oldSelf.preAllocated : 0)",message="PreAllocated field is immutable"
type NetworkSpec struct {
	// CIDR is the requested network; if that is in use, another network of the same length is allocated.
	//
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="CIDR field is immutable"
	CIDR networkingv1beta1.CIDR `json:"cidr"`
	// PreAllocated is how many of the first addresses are taken.
	//
	// +kubebuilder:validation:Minimum=0
	PreAllocated int32 `json:"preAllocated,omitempty"`
}

// ConditionAllocated is True when a Network, an IP or an InternalNode has its prefix or address, and has the reason otherwise.
const ConditionAllocated = "Allocated"

// NetworkStatus is the CIDR given.
type NetworkStatus struct {
	// CIDR is the network given.
	CIDR networkingv1beta1.CIDR `json:"cidr,omitempty"`
	// Conditions: Allocated reports whether a CIDR was allocated, or names the conflict.
	//
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// Network requests a CIDR of its own.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:categories=liqo,shortName=net
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Desired CIDR",type=string,JSONPath=`.spec.cidr`
// +kubebuilder:printcolumn:name="Remapped CIDR",type=string,JSONPath=`.status.cidr`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type Network struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec NetworkSpec `json:"spec"`
	// +optional
	Status NetworkStatus `json:"status,omitzero"`
}

// NetworkList is a list of objects of kind Network.
//
// +kubebuilder:object:root=true
type NetworkList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Network `json:"items"`
}
