// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package v1beta1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// RouteConfigurationResource is the plural of RouteConfiguration.
const RouteConfigurationResource = "routeconfigurations"

// Scope is the scope of a route.
//
// +kubebuilder:validation:Enum=global;link;host;site;nowhere
type Scope string

// Scopes of routes.
const (
	GlobalScope  Scope = "global"
	LinkScope    Scope = "link"
	HostScope    Scope = "host"
	SiteScope    Scope = "site"
	NowhereScope Scope = "nowhere"
)

// Route is a route of a table.
type Route struct {
	// Dst is where packets go.
	//
	// +required
	Dst *CIDR `json:"dst"`
	// Src is the source of packets of the host itself.
	Src *IP `json:"src,omitempty"`
	// Gw is the next hop.
	Gw *IP `json:"gw,omitempty"`
	// Dev is the device to leave by.
	Dev *string `json:"dev,omitempty"`
	// Onlink takes the next hop to be on the link.
	Onlink *bool  `json:"onlink,omitempty"`
	Scope  *Scope `json:"scope,omitempty"`
	// TargetRef is the object for which the route was written.
	TargetRef *corev1.ObjectReference `json:"targetRef,omitempty"`
}

// Rule sends packets to the table's routes.
type Rule struct {
	// Dst of packets.
	Dst *CIDR `json:"dst,omitempty"`
	// Src of packets.
	Src *CIDR `json:"src,omitempty"`
	// Iif is the input device of matching packets.
	Iif *string `json:"iif,omitempty"`
	// Oif is the device to which a matching socket is bound.
	Oif *string `json:"oif,omitempty"`
	// FwMark of packets.
	FwMark *int `json:"fwmark,omitempty"`
	// Priority of the rule; lower numbers come first.
	Priority *int `json:"priority,omitempty"`
	// Routes of the table.
	Routes []Route `json:"routes"`
	// TargetRef is the object for which the rule was written.
	TargetRef *corev1.ObjectReference `json:"targetRef,omitempty"`
}

// Table is a routing table and its rules.
type Table struct {
	// Name of the table.
	//
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="the name of the table is immutable"
	Name string `json:"name"`
	// Rules select the table.
	//
	// +kubebuilder:validation:MinItems=1
	Rules []Rule `json:"rules"`
	// TargetRef is the object for which the table was written.
	TargetRef *corev1.ObjectReference `json:"targetRef,omitempty"`
}

// RouteConfigurationSpec is the table to have.
type RouteConfigurationSpec struct {
	// +optional
	Table Table `json:"table,omitzero"`
}

// RouteConfigurationStatus has the reports of the hosts.
type RouteConfigurationStatus struct {
	// Conditions are the reports of the hosts.
	//
	// +listType=map
	// +listMapKey=host
	// +listMapKey=type
	Conditions []HostCondition `json:"conditions,omitempty"`
}

// RouteConfiguration is a routing table.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:categories=liqo,shortName=rcnf;rcnfg;rcfg;routecfg
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type RouteConfiguration struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// +optional
	Spec RouteConfigurationSpec `json:"spec,omitzero"`
	// +optional
	Status RouteConfigurationStatus `json:"status,omitzero"`
}

// RouteConfigurationList is a list of objects of kind RouteConfiguration.
//
// +kubebuilder:object:root=true
type RouteConfigurationList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []RouteConfiguration `json:"items"`
}
