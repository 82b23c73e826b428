// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package v1beta1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ConfigurationResource is the plural of Configuration.
const ConfigurationResource = "configurations"

// ConditionNetworkCIDRsConfigured is true when every CIDR of the peer has a local view.
const ConditionNetworkCIDRsConfigured = "NetworkCIDRsConfigured"

// ReasonAnotherConfiguration is set where another Configuration of the same peer counts.
const ReasonAnotherConfiguration = "AnotherConfiguration"

// ClusterConfigCIDR are the networks of a cluster.
type ClusterConfigCIDR struct {
	// Pod has the networks of pods.
	Pod []CIDR `json:"pod,omitempty"`
	// External has the translated addresses of everything outside the pod network.
	External []CIDR `json:"external,omitempty"`
}

// ClusterConfig describes the network of a cluster.
type ClusterConfig struct {
	// CIDR has the networks.
	//
	// +optional
	CIDR ClusterConfigCIDR `json:"cidr,omitzero"`
	// APIServerProxyIP is the address of the API server proxy in an external CIDR. Consumers that are peered in-band follow it. It is not used in
	// spec.remote.
	//
	// +kubebuilder:validation:MaxLength=45
	APIServerProxyIP IP `json:"apiServerProxyIP,omitempty"`
}

// ConfigurationSpec has the networks as their owners know them.
type ConfigurationSpec struct {
	// Local is filled in if absent.
	Local *ClusterConfig `json:"local,omitempty"`
	// Remote has the networks of the peer, before remapping.
	//
	// +optional
	Remote ClusterConfig `json:"remote,omitzero"`
}

// ConfigurationStatus has the peer's networks as this cluster sees them.
type ConfigurationStatus struct {
	// Conditions: NetworkCIDRsConfigured reports whether all networks are remapped, Applied the parts that nodes and gateways leave out.
	//
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	// Remote is aligned with ObservedRemote, index by index.
	Remote *ClusterConfig `json:"remote,omitempty"`
	// ObservedRemote has the networks of spec.remote for which Remote was computed: those with a prefix of this cluster.
	ObservedRemote *ClusterConfig `json:"observedRemote,omitempty"`
	// ReportedRemote has the networks of the peer as the peer reports them.
	ReportedRemote *ClusterConfig `json:"reportedRemote,omitempty"`
	// AgreedRemote is the last ReportedRemote that was equal to spec.remote. While spec.remote is that, it follows ReportedRemote.
	AgreedRemote *ClusterConfig `json:"agreedRemote,omitempty"`
}

// Configuration has the networks of one peer.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:categories=liqo,shortName=conf
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Desired Pod CIDR ",type=string,JSONPath=`.spec.remote.cidr.pod`
// +kubebuilder:printcolumn:name="Remapped Pod CIDR",type=string,JSONPath=`.status.remote.cidr.pod`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Desired External CIDR",type=string,priority=1,JSONPath=`.spec.remote.cidr.external`
// +kubebuilder:printcolumn:name="Remapped External CIDR",type=string,priority=1,JSONPath=`.status.remote.cidr.external`
// +kubebuilder:printcolumn:name="ClusterID",type=string,priority=1,JSONPath=`.metadata.labels.liqo\.io/remote-cluster-id`
type Configuration struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// +optional
	Spec ConfigurationSpec `json:"spec,omitzero"`
	// +optional
	Status ConfigurationStatus `json:"status,omitzero"`
}

// ConfigurationList is a list of objects of kind Configuration.
//
// +kubebuilder:object:root=true
type ConfigurationList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Configuration `json:"items"`
}
