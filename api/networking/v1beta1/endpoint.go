// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package v1beta1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ConditionGatewayReady is the type of the condition of gateways and of their rendered objects: True while a gateway runs and is
// reachable.
const ConditionGatewayReady = "Ready"

// ConditionApplied is False on a Configuration, a gateway or an IP while nodes or gateways leave part of the object out, True on an IP
// whose host needs a route back to peers, and absent otherwise.
const ConditionApplied = "Applied"

// EndpointStatus is where a gateway can be reached.
//
// +kubebuilder:validation:XValidation:rule="!(has(self.port) && has(self.ports))",message="port and ports are mutually exclusive"
// +kubebuilder:validation:XValidation:rule="has(self.port) || (has(self.ports) && size(self.ports) > 0)",message="at least one of port or ports must be set"
// +kubebuilder:validation:XValidation:rule="!(has(self.ports)) || self.ports.all(p, self.ports.filter(q, q == p).size() == 1)",message="ports must not contain duplicates"
type EndpointStatus struct {
	// Addresses are IP addresses or host names.
	Addresses []string `json:"addresses,omitempty"`
	// Port is the port of the gateway.
	Port int32 `json:"port,omitempty"`
	// Protocol of the port.
	//
	// +kubebuilder:validation:Enum=TCP;UDP
	Protocol *corev1.Protocol `json:"protocol,omitempty"`
	// Ports are the ports of a gateway with several tunnels.
	//
	// +kubebuilder:validation:MaxItems=64
	Ports []int32 `json:"ports,omitempty"`
}

// InternalGatewayEndpoint is where the nodes find the active replica of a gateway.
type InternalGatewayEndpoint struct {
	// IP is the address of the pod.
	IP *IP `json:"ip,omitempty"`
	// Node is where the pod runs.
	Node *string `json:"node,omitempty"`
}

// GatewayReplica is a running pod of a gateway with several.
type GatewayReplica struct {
	// Name is the name of the pod. The active one holds the Lease of the gateway.
	Name string `json:"name"`
	// IP is the address of the pod.
	IP IP `json:"ip"`
	// Node is where the pod runs.
	Node string `json:"node,omitempty"`
}

// HostCondition is the report of a node or gateway about an applied object.
type HostCondition struct {
	// Host is the name of the node or the gateway; "*" where no one applies the object.
	Host   string                 `json:"host"`
	Type   HostConditionType      `json:"type"`
	Status metav1.ConditionStatus `json:"status"`
	// +optional
	LastTransitionTime metav1.Time `json:"lastTransitionTime,omitzero"`
	// Reason and Message explain the status False.
	Reason  string `json:"reason,omitempty"`
	Message string `json:"message,omitempty"`
}

// NoHost is the host in the condition of an object without a node or gateway to apply it.
const NoHost = "*"

// HostConditionType is the subject of a HostCondition.
type HostConditionType string

// Types of HostConditions.
const (
	HostConditionApplied HostConditionType = "Applied"
	HostConditionError   HostConditionType = "Error"
)

// Reasons of a HostCondition with status False.
const (
	// ReasonNotApplied: the part in the message is not applied, the rest is. An event has the same reason.
	ReasonNotApplied = "NotApplied"
	// ReasonApplyFailed: the kernel of the host refuses the part in the message, maybe of another object.
	ReasonApplyFailed = "ApplyFailed"
	// ReasonNoHost: no node and no gateway applies the object, for the reason in the message. The host is NoHost.
	ReasonNoHost = "NoHost"
)
