// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package v1beta1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"liqo.io/liqo/api/networking/v1beta1/firewall"
)

// FirewallConfigurationResource is the plural of FirewallConfiguration.
const FirewallConfigurationResource = "firewallconfigurations"

// FirewallConfigurationSpec is the table to have.
type FirewallConfigurationSpec struct {
	Table firewall.Table `json:"table"`
}

// FirewallConfigurationStatus has the reports of the hosts.
type FirewallConfigurationStatus struct {
	// Conditions are the reports of the hosts.
	//
	// +listType=map
	// +listMapKey=host
	// +listMapKey=type
	Conditions []HostCondition `json:"conditions,omitempty"`
}

// FirewallConfiguration is a table of nftables.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:categories=liqo,shortName=fw;fwconfig;fwcfg
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type FirewallConfiguration struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// +optional
	Spec FirewallConfigurationSpec `json:"spec,omitzero"`
	// +optional
	Status FirewallConfigurationStatus `json:"status,omitzero"`
}

// FirewallConfigurationList is a list of objects of kind FirewallConfiguration.
//
// +kubebuilder:object:root=true
type FirewallConfigurationList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []FirewallConfiguration `json:"items"`
}
