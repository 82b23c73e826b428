// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package v1beta1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// GatewayClientResource is the plural of GatewayClient.
const GatewayClientResource = "gatewayclients"

// GatewayClientSpec describes a client and the server to dial.
type GatewayClientSpec struct {
	// ClientTemplateRef names the template of the gateway.
	//
	// +optional
	ClientTemplateRef corev1.ObjectReference `json:"clientTemplateRef,omitzero"`
	// MTU is the upper bound of the tunnel's MTU, in bytes; 0 uses all the room of the outer network.
	MTU int `json:"mtu,omitempty"`
	// Endpoint is the server's.
	//
	// +optional
	Endpoint EndpointStatus `json:"endpoint,omitzero"`
	// SecretRef names an existing key Secret; without it a key is made.
	//
	// +optional
	SecretRef corev1.LocalObjectReference `json:"secretRef,omitzero"`
}

// GatewayClientStatus is the observed state of a GatewayClient.
type GatewayClientStatus struct {
	// ClientRef is the rendered object.
	ClientRef *corev1.ObjectReference `json:"clientRef,omitempty"`
	// SecretRef is the Secret with the keys.
	SecretRef *corev1.ObjectReference `json:"secretRef,omitempty"`
	// PublicKey is the public key in the Secret, for users without access to Secrets.
	PublicKey        []byte                   `json:"publicKey,omitempty"`
	InternalEndpoint *InternalGatewayEndpoint `json:"internalEndpoint,omitempty"`
	// Replicas are the running pods of a gateway with several; one of them is active.
	//
	// +kubebuilder:validation:MaxItems=16
	// +listType=map
	// +listMapKey=name
	Replicas []GatewayReplica `json:"replicas,omitempty"`
	// MTU of the tunnel in bytes, copied from the Connection.
	MTU int `json:"mtu,omitempty"`
	// Endpoint is the address of the server as reported by the peer, dialled after the addresses of the spec.
	Endpoint *EndpointStatus `json:"endpoint,omitempty"`
	// Conditions: Ready reports whether the gateway runs.
	//
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// GatewayClient dials the gateway of a peer.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:categories=liqo,shortName=gwc;gwclient
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Template Kind",type=string,priority=1,JSONPath=`.spec.clientTemplateRef.kind`
// +kubebuilder:printcolumn:name="Template Name",type=string,JSONPath=`.spec.clientTemplateRef.name`
// +kubebuilder:printcolumn:name="Template Namespace",type=string,priority=1,JSONPath=`.spec.clientTemplateRef.namespace`
// +kubebuilder:printcolumn:name="IP",type=string,JSONPath=`.spec.endpoint.addresses[*]`
// +kubebuilder:printcolumn:name="Port",type=string,JSONPath=`.spec.endpoint.port`
// +kubebuilder:printcolumn:name="Protocol",type=string,priority=1,JSONPath=`.spec.endpoint.protocol`
// +kubebuilder:printcolumn:name="MTU",type=integer,priority=1,JSONPath=`.spec.mtu`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type GatewayClient struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// +optional
	Spec GatewayClientSpec `json:"spec,omitzero"`
	// +optional
	Status GatewayClientStatus `json:"status,omitzero"`
}

// GatewayClientList is a list of objects of kind GatewayClient.
//
// +kubebuilder:object:root=true
type GatewayClientList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []GatewayClient `json:"items"`
}
