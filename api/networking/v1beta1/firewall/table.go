// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

// Package firewall describes a table of nftables as an object.
//
// +kubebuilder:object:generate=true
package firewall

// TableFamily is the address family of a table.
//
// +kubebuilder:validation:Enum=INET;IPV4;IPV6;ARP;NETDEV;BRIDGE
type TableFamily string

// Families of tables.
const (
	TableFamilyINet   TableFamily = "INET"
	TableFamilyIPv4   TableFamily = "IPV4"
	TableFamilyIPv6   TableFamily = "IPV6"
	TableFamilyARP    TableFamily = "ARP"
	TableFamilyNetdev TableFamily = "NETDEV"
	TableFamilyBridge TableFamily = "BRIDGE"
)

// Table is a table of nftables.
type Table struct {
	// Name of the table.
	//
	// +required
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="the name of the table is immutable"
	Name *string `json:"name"`
	// +required
	Family *TableFamily `json:"family"`
	// +listType=map
	// +listMapKey=name
	Chains []Chain `json:"chains,omitempty"`
}
