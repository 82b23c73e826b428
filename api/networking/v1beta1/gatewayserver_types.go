// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package v1beta1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// GatewayServerResource is the plural of GatewayServer.
const GatewayServerResource = "gatewayservers"

// Endpoint says how a gateway is exposed.
//
// +kubebuilder:validation:XValidation:rule="!(has(self.port) && has(self.ports))",message="port and ports are mutually exclusive"
// +kubebuilder:validation:XValidation:rule="!(has(self.nodePort) && has(self.nodePorts))",message="nodePort and nodePorts are mutually exclusive"
// +kubebuilder:validation:XValidation:rule="has(self.port) || (has(self.ports) && size(self.ports) > 0)",message="at least one of port or ports must be set"
// +kubebuilder:validation:XValidation:rule="!(has(self.ports)) || self.ports.all(p, self.ports.filter(q, q == p).size() == 1)",message="ports must not contain duplicates"
// +kubebuilder:validation:XValidation:rule="!(has(self.nodePorts)) || self.nodePorts.all(p, self.nodePorts.filter(q, q == p).size() == 1)",message="nodePorts must not contain duplicates"
type Endpoint struct {
	// Port of the Service.
	Port int32 `json:"port,omitempty"`
	// Ports of the Service, for a gateway with several tunnels.
	//
	// +kubebuilder:validation:MaxItems=64
	Ports []int32 `json:"ports,omitempty"`
	// ServiceType of the Service.
	//
	// +kubebuilder:default=ClusterIP
	// +kubebuilder:validation:Enum=ClusterIP;NodePort;LoadBalancer;ExternalName
	ServiceType corev1.ServiceType `json:"serviceType,omitempty"`
	// NodePort of the Service; if absent, the cluster chooses a port.
	NodePort *int32 `json:"nodePort,omitempty"`
	// NodePorts are the node ports of ports, in the same order.
	//
	// +kubebuilder:validation:MaxItems=64
	NodePorts []int32 `json:"nodePorts,omitempty"`
	// LoadBalancerIP is the requested address; if absent, the cluster chooses an address.
	LoadBalancerIP *string `json:"loadBalancerIP,omitempty"`
}

// GatewayServerSpec describes a server and its Service.
type GatewayServerSpec struct {
	// ServerTemplateRef names the template of the gateway.
	//
	// +optional
	ServerTemplateRef corev1.ObjectReference `json:"serverTemplateRef,omitzero"`
	// MTU is the upper bound of the tunnel's MTU, in bytes; 0 uses all the room of the outer network.
	MTU int `json:"mtu,omitempty"`
	// +optional
	Endpoint Endpoint `json:"endpoint,omitzero"`
	// SecretRef names an existing key Secret; without it a key is made.
	//
	// +optional
	SecretRef corev1.LocalObjectReference `json:"secretRef,omitzero"`
	// ServiceAnnotations are for the Service.
	ServiceAnnotations map[string]string `json:"serviceAnnotations,omitempty"`
	// ServiceLabels are for the Service.
	ServiceLabels map[string]string `json:"serviceLabels,omitempty"`
}

// GatewayServerStatus is the observed state of a GatewayServer.
type GatewayServerStatus struct {
	// ServerRef is the rendered object.
	ServerRef *corev1.ObjectReference `json:"serverRef,omitempty"`
	// Endpoint is where clients reach the gateway.
	Endpoint *EndpointStatus `json:"endpoint,omitempty"`
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
	// Conditions: Ready reports whether the gateway runs.
	//
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// GatewayServer waits for the gateway of a peer.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:categories=liqo,shortName=gws;gwserver
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Template Kind",type=string,priority=1,JSONPath=`.spec.serverTemplateRef.kind`
// +kubebuilder:printcolumn:name="Template Name",type=string,JSONPath=`.spec.serverTemplateRef.name`
// +kubebuilder:printcolumn:name="Template Namespace",type=string,priority=1,JSONPath=`.spec.serverTemplateRef.namespace`
// +kubebuilder:printcolumn:name="IP",type=string,JSONPath=`.status.endpoint.addresses[*]`
// +kubebuilder:printcolumn:name="Port",type=string,JSONPath=`.status.endpoint.port`
// +kubebuilder:printcolumn:name="Protocol",type=string,priority=1,JSONPath=`.status.endpoint.protocol`
// +kubebuilder:printcolumn:name="MTU",type=integer,priority=1,JSONPath=`.spec.mtu`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type GatewayServer struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// +optional
	Spec GatewayServerSpec `json:"spec,omitzero"`
	// +optional
	Status GatewayServerStatus `json:"status,omitzero"`
}

// GatewayServerList is a list of objects of kind GatewayServer.
//
// +kubebuilder:object:root=true
type GatewayServerList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []GatewayServer `json:"items"`
}
