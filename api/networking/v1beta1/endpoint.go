// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package v1beta1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ConditionGatewayReady is True while a gateway runs and can be reached: the type of the condition of gateways, and of what their
// templates render.
const ConditionGatewayReady = "Ready"

// ConditionApplied is False, with the reason, on a Configuration, a gateway or an IP of which nodes and gateways leave something out,
// and not there else.
const ConditionApplied = "Applied"

// EndpointStatus is where a gateway can be reached.
//
// +kubebuilder:validation:XValidation:rule="!(has(self.port) && has(self.ports))",message="port and ports are mutually exclusive"
// +kubebuilder:validation:XValidation:rule="has(self.port) || (has(self.ports) && size(self.ports) > 0)",message="at least one of port or ports must be set"
// +kubebuilder:validation:XValidation:rule="!(has(self.ports)) || self.ports.all(p, self.ports.filter(q, q == p).size() == 1)",message="ports must not contain duplicates"
type EndpointStatus struct {
	// Addresses are IP addresses or host names.
	Addresses []string `json:"addresses,omitempty"`
	// Port is where it listens.
	Port int32 `json:"port,omitempty"`
	// Protocol of the port.
	//
	// +kubebuilder:validation:Enum=TCP;UDP
	Protocol *corev1.Protocol `json:"protocol,omitempty"`
	// Ports are those of a gateway with several tunnels.
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

// HostCondition is what a node or a gateway says about an object that it applies.
type HostCondition struct {
	// Host is the name of the node or the gateway; "*" where no one applies the object.
	Host   string                 `json:"host"`
	Type   HostConditionType      `json:"type"`
	Status metav1.ConditionStatus `json:"status"`
	// +optional
	LastTransitionTime metav1.Time `json:"lastTransitionTime,omitzero"`
	// Reason and Message say why it is False.
	Reason  string `json:"reason,omitempty"`
	Message string `json:"message,omitempty"`
}

// NoHost is the host of the condition of an object that no node and no gateway applies.
const NoHost = "*"

// HostConditionType names what a HostCondition is about.
type HostConditionType string

// Types of HostConditions.
const (
	HostConditionApplied HostConditionType = "Applied"
	HostConditionError   HostConditionType = "Error"
)

// Reasons of a HostCondition that is False.
const (
	// ReasonNotApplied is that what the message names is not done, and the rest is; an event has it, too.
	ReasonNotApplied = "NotApplied"
	// ReasonApplyFailed is that the kernel of the host refuses something that the message names, which may be of another object.
	ReasonApplyFailed = "ApplyFailed"
	// ReasonNoHost is that no node and no gateway applies the object: the message says why. The host is NoHost.
	ReasonNoHost = "NoHost"
)
