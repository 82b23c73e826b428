// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package v1beta1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// WgGatewayServerResource is the plural of WgGatewayServer.
const WgGatewayServerResource = "wggatewayservers"

// WgGatewayServerSpec is the rendered template.
type WgGatewayServerSpec struct {
	Service    ServiceTemplate    `json:"service"`
	Deployment DeploymentTemplate `json:"deployment"`
	Metrics    *Metrics           `json:"metrics,omitempty"`
	// SecretRef names the Secret with the keys.
	//
	// +optional
	SecretRef corev1.LocalObjectReference `json:"secretRef,omitzero"`
}

// WgGatewayServerStatus is the observed state of a WgGatewayServer.
type WgGatewayServerStatus struct {
	// SecretRef is the Secret with the keys.
	SecretRef *corev1.ObjectReference `json:"secretRef,omitempty"`
	// PublicKey is the public key in the Secret, for users without access to Secrets.
	PublicKey []byte `json:"publicKey,omitempty"`
	// Endpoint is where clients reach the gateway.
	Endpoint         *EndpointStatus          `json:"endpoint,omitempty"`
	InternalEndpoint *InternalGatewayEndpoint `json:"internalEndpoint,omitempty"`
	// Replicas are the running pods of a gateway with several; one of them is active.
	//
	// +kubebuilder:validation:MaxItems=16
	// +listType=map
	// +listMapKey=name
	Replicas []GatewayReplica `json:"replicas,omitempty"`
	// Conditions: Ready reports whether the gateway runs.
	//
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// WgGatewayServer is a GatewayServer rendered by its template.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:categories=liqo,shortName=wgs;wggs
// +kubebuilder:subresource:status
type WgGatewayServer struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// +optional
	Spec WgGatewayServerSpec `json:"spec,omitzero"`
	// +optional
	Status WgGatewayServerStatus `json:"status,omitzero"`
}

// WgGatewayServerList is a list of objects of kind WgGatewayServer.
//
// +kubebuilder:object:root=true
type WgGatewayServerList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []WgGatewayServer `json:"items"`
}
