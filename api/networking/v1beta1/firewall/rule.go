// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package firewall

import corev1 "k8s.io/api/core/v1"

// NatType is the translation of a rule.
//
// +kubebuilder:validation:Enum=dnat;snat;masquerade
type NatType string

// Translations.
const (
	NatTypeDestination NatType = "dnat"
	NatTypeSource      NatType = "snat"
	NatTypeMasquerade  NatType = "masquerade"
)

// NatRule translates addresses.
type NatRule struct {
	// Name is made up if absent.
	Name *string `json:"name,omitempty"`
	// Match is a conjunction.
	Match   []Match `json:"match"`
	NatType NatType `json:"natType"`
	// To is an address, or a network to map one to one.
	To *string `json:"to,omitempty"`
	// TargetRef is the object for which the rule was written.
	TargetRef *corev1.ObjectReference `json:"targetRef,omitempty"`
}

// FilterAction is done with matching packets.
//
// +kubebuilder:validation:Enum=ctmark;metamarkfromctmark;tcpmssclamp;accept;drop;reject;notrack
type FilterAction string

// Actions.
const (
	ActionCtMark             FilterAction = "ctmark"
	ActionMetaMarkFromCtMark FilterAction = "metamarkfromctmark"
	ActionTCPMssClamp        FilterAction = "tcpmssclamp"
	ActionAccept             FilterAction = "accept"
	ActionDrop               FilterAction = "drop"
	ActionReject             FilterAction = "reject"
	ActionNotrack            FilterAction = "notrack"
)

// FilterRule filters or marks packets.
type FilterRule struct {
	// Name is made up if absent.
	Name *string `json:"name,omitempty"`
	// Counter counts matching packets.
	//
	// +kubebuilder:default=true
	Counter bool `json:"counter"`
	// Match is a conjunction.
	Match  []Match      `json:"match"`
	Action FilterAction `json:"action"`
	// Value is the mark of ctmark, or the segment size of tcpmssclamp; 0 or absent takes the size from the route.
	Value *string `json:"value,omitempty"`
}

// RouteRule is a rule of a route chain.
type RouteRule struct {
	// Name is made up if absent.
	Name *string `json:"name,omitempty"`
}
