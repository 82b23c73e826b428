// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package v1beta1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ConnectionResource is the plural of Connection.
const ConnectionResource = "connections"

// ConnectionType is the local end of a tunnel.
//
// +kubebuilder:validation:Enum=Server;Client
type ConnectionType string

// Ends of a tunnel.
const (
	ConnectionTypeServer ConnectionType = "Server"
	ConnectionTypeClient ConnectionType = "Client"
)

// ConnectionStatusValue is the state of a tunnel.
type ConnectionStatusValue string

// States of a tunnel.
const (
	Connected       ConnectionStatusValue = "Connected"
	Connecting      ConnectionStatusValue = "Connecting"
	ConnectionError ConnectionStatusValue = "Error"
)

// ConnectionSpec names the gateway of a tunnel.
type ConnectionSpec struct {
	Type ConnectionType `json:"type"`
	// GatewayRef is the GatewayServer or GatewayClient.
	GatewayRef corev1.ObjectReference `json:"gatewayRef"`
}

// ConnectionLatency is a measured round trip.
type ConnectionLatency struct {
	// Value is the round trip.
	Value string `json:"value,omitempty"`
	// Timestamp is the time of the measurement.
	//
	// +optional
	Timestamp metav1.Time `json:"timestamp,omitzero"`
}

// ConnectionReach is the share of the reporting nodes whose pods reach the peer while the tunnel is up, unless all do.
//
// +kubebuilder:validation:Enum=Some;None
type ConnectionReach string

// Values of ConnectionReach.
const (
	ReachSome ConnectionReach = "Some"
	ReachNone ConnectionReach = "None"
)

// ConnectionLoss is the kind of packets lost in a tunnel.
//
// +kubebuilder:validation:Enum=All;Large
type ConnectionLoss string

// Values of ConnectionLoss.
const (
	LostAll   ConnectionLoss = "All"
	LostLarge ConnectionLoss = "Large"
)

// ConnectionStatus is the state of the tunnel, and of the path between pods and the tunnel.
type ConnectionStatus struct {
	// Value is Connecting, Connected or Error.
	Value ConnectionStatusValue `json:"value,omitempty"`
	// +optional
	Latency ConnectionLatency `json:"latency,omitzero"`
	// Lost is set while Value is Error because of the tunnel: All, or Large if small packets pass.
	Lost ConnectionLoss `json:"lost,omitempty"`
	// Reach is set while the tunnel is up, but pods of some nodes or of all do not reach the peer. Value is Error then.
	Reach ConnectionReach `json:"reach,omitempty"`
	// FailedNodes are the nodes whose pods do not reach the peer although the tunnel is up: the first ten by name.
	//
	// +listType=set
	FailedNodes []string `json:"failedNodes,omitempty"`
	// MTU is the size of the largest sent packets in bytes: the MTU of the gateway, or less if larger packets are lost.
	MTU int `json:"mtu,omitempty"`
}

// Connection shows the tunnel of a gateway.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:categories=liqo,shortName=conn
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Type",type=string,JSONPath=`.spec.type`
// +kubebuilder:printcolumn:name="Status",type=string,JSONPath=`.status.value`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Latency",type=string,priority=1,JSONPath=`.status.latency.value`
// +kubebuilder:printcolumn:name="Failed Nodes",type=string,priority=1,JSONPath=`.status.failedNodes`
type Connection struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// +optional
	Spec ConnectionSpec `json:"spec,omitzero"`
	// +optional
	Status ConnectionStatus `json:"status,omitzero"`
}

// ConnectionList is a list of objects of kind Connection.
//
// +kubebuilder:object:root=true
type ConnectionList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Connection `json:"items"`
}
