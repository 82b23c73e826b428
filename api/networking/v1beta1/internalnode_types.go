// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package v1beta1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// InternalNodeResource is the plural of InternalNode.
const InternalNodeResource = "internalnodes"

// MaxPodCIDRs is the maximum number of status.podCIDRs.
const MaxPodCIDRs = 4096

// InternalNodeSpecInterfaceGateway is the device of gateways towards the node.
type InternalNodeSpecInterfaceGateway struct {
	// Name of the device.
	Name string `json:"name"`
}

// InternalNodeSpecInterfaceNode is the address of the node in front of peers.
type InternalNodeSpecInterfaceNode struct {
	// IP is of the external network.
	IP IP `json:"ip"`
}

// InternalNodeSpecInterface is the link between gateways and the node.
type InternalNodeSpecInterface struct {
	Gateway InternalNodeSpecInterfaceGateway `json:"gateway"`
	Node    InternalNodeSpecInterfaceNode    `json:"node"`
}

// InternalNodeSpec is the part of a node that gateways need.
type InternalNodeSpec struct {
	Interface InternalNodeSpecInterface `json:"interface"`
}

// InternalNodeStatusNodeIP are the node's source addresses towards pods.
type InternalNodeStatusNodeIP struct {
	// Local is used towards pods of the node itself.
	Local *IP `json:"local,omitempty"`
	// Remote is used towards pods of other nodes.
	Remote *IP `json:"remote,omitempty"`
}

// InternalNodePeer is how the way of the node's pods to a peer fares: by the fabric, the gateway and the tunnel.
type InternalNodePeer struct {
	// ClusterID is the peer's.
	ClusterID string `json:"clusterID"`
	// Value is Connected while packets of all sizes pass, else Error.
	Value ConnectionStatusValue `json:"value"`
	// Latency is a round trip, measured when Value became Connected.
	Latency string `json:"latency,omitempty"`
	// Since is the time of the last change of Value.
	// +optional
	Since metav1.Time `json:"since,omitzero"`
}

// InternalNodeStatus is the report of the node.
type InternalNodeStatus struct {
	// NodeIP are the node's source addresses towards pods, determined when a gateway ran last; empty before.
	//
	// +optional
	NodeIP InternalNodeStatusNodeIP `json:"nodeIP"`
	// PodCIDRs cover the node's pods.
	//
	// +kubebuilder:validation:MaxItems=4096
	// +listType=set
	PodCIDRs []CIDR `json:"podCIDRs,omitempty"`
	// Peers are the peers with a gateway, and whether the node's pods reach them.
	//
	// +listType=map
	// +listMapKey=clusterID
	Peers []InternalNodePeer `json:"peers,omitempty"`
	// Conditions: Allocated reports whether the node has an external address, or names the conflict.
	//
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// InternalNode is a physical node, described for gateways.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:categories=liqo,shortName=in;inode,scope=Cluster
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Node IP Local",type=string,JSONPath=`.status.nodeIP.local`
// +kubebuilder:printcolumn:name="Node IP Remote",type=string,JSONPath=`.status.nodeIP.remote`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type InternalNode struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// +optional
	Spec InternalNodeSpec `json:"spec,omitzero"`
	// +optional
	Status InternalNodeStatus `json:"status,omitzero"`
}

// InternalNodeList is a list of objects of kind InternalNode.
//
// +kubebuilder:object:root=true
type InternalNodeList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []InternalNode `json:"items"`
}
