// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
)

// IPResource is the plural of IP.
const IPResource = "ips"

// ServiceTemplate is a Service to make in front of the address.
type ServiceTemplate struct {
	// Metadata of the Service.
	//
	// +optional
	Metadata metav1.ObjectMeta `json:"metadata,omitzero"`
	// Spec of the Service.
	//
	// +optional
	// +kubebuilder:validation:Schemaless
	// +kubebuilder:validation:Type=object
	// +kubebuilder:pruning:PreserveUnknownFields
	Spec corev1.ServiceSpec `json:"spec,omitzero"`
}

// IPSpec is an address to show to peers.
type IPSpec struct {
	// IP is the address to show.
	//
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="IP field is immutable"
	IP networkingv1beta1.IP `json:"ip"`
	// NetworkRef is the Network to allocate from; the external CIDR if absent.
	NetworkRef      *corev1.ObjectReference `json:"networkRef,omitempty"`
	ServiceTemplate *ServiceTemplate        `json:"serviceTemplate,omitempty"`
	// Masquerade hides the clients from the address.
	Masquerade *bool `json:"masquerade,omitempty"`
}

// MaxPreviousIPs bounds IPStatus.PreviousIPs.
const MaxPreviousIPs = 3

// IPStatus is the translated address.
type IPStatus struct {
	// IP is the translated address, which peers use.
	//
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="IP field is immutable"
	IP networkingv1beta1.IP `json:"ip,omitempty"`
	// CIDR is the network of the translated address.
	//
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="CIDR field is immutable"
	CIDR networkingv1beta1.CIDR `json:"cidr,omitempty"`
	// PreviousIPs are translated addresses of earlier external CIDRs, the newest first. Peers use them until they know the present one.
	//
	// +kubebuilder:validation:MaxItems=3
	PreviousIPs []networkingv1beta1.IP `json:"previousIPs,omitempty"`
	// Conditions: Allocated reports whether an address was allocated, Applied the parts that nodes and gateways leave out.
	//
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// IP shows an address of this cluster to peers.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:categories=liqo
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Local IP",type=string,JSONPath=`.spec.ip`
// +kubebuilder:printcolumn:name="Remapped IP",type=string,JSONPath=`.status.ip`
// +kubebuilder:printcolumn:name="Remapped IP CIDR",type=string,JSONPath=`.status.cidr`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type IP struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec IPSpec `json:"spec"`
	// +optional
	Status IPStatus `json:"status,omitzero"`
}

// IPList is a list of objects of kind IP.
//
// +kubebuilder:object:root=true
type IPList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []IP `json:"items"`
}
