// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package firewall

import "math"

// ChainType is the type of a chain.
//
// +kubebuilder:validation:Enum=filter;route;nat
type ChainType string

// Types of chains.
const (
	ChainTypeFilter ChainType = "filter"
	ChainTypeRoute  ChainType = "route"
	ChainTypeNAT    ChainType = "nat"
)

// ChainPolicy decides about packets without a matching rule.
//
// +kubebuilder:validation:Enum=drop;accept
type ChainPolicy string

// Policies of chains.
const (
	ChainPolicyDrop   ChainPolicy = "drop"
	ChainPolicyAccept ChainPolicy = "accept"
)

// ChainHook is where in the kernel a chain is called.
//
// +kubebuilder:validation:Enum=prerouting;input;forward;output;postrouting;ingress
type ChainHook string

// Hooks of chains.
const (
	ChainHookPrerouting  ChainHook = "prerouting"
	ChainHookInput       ChainHook = "input"
	ChainHookForward     ChainHook = "forward"
	ChainHookOutput      ChainHook = "output"
	ChainHookPostrouting ChainHook = "postrouting"
	ChainHookIngress     ChainHook = "ingress"
)

// ChainPriority orders the chains of a hook.
type ChainPriority int32

// Priorities with a name.
const (
	ChainPriorityFirst            ChainPriority = math.MinInt32
	ChainPriorityConntrackDefrag  ChainPriority = -400
	ChainPriorityRaw              ChainPriority = -300
	ChainPrioritySELinuxFirst     ChainPriority = -225
	ChainPriorityConntrack        ChainPriority = -200
	ChainPriorityMangle           ChainPriority = -150
	ChainPriorityNATDest          ChainPriority = -100
	ChainPriorityFilter           ChainPriority = 0
	ChainPrioritySecurity         ChainPriority = 50
	ChainPriorityNATSource        ChainPriority = 100
	ChainPrioritySELinuxLast      ChainPriority = 225
	ChainPriorityConntrackHelper  ChainPriority = 300
	ChainPriorityConntrackConfirm ChainPriority = math.MaxInt32
	ChainPriorityLast             ChainPriority = math.MaxInt32
)

// Chain is a base chain.
type Chain struct {
	// Name of the chain.
	//
	// +required
	Name *string   `json:"name"`
	Type ChainType `json:"type"`
	// +required
	Policy *ChainPolicy `json:"policy"`
	// +required
	Hook *ChainHook `json:"hook"`
	// +required
	// +kubebuilder:default=0
	Priority *ChainPriority `json:"priority,omitempty"`
	Rules    RulesSet       `json:"rules"`
}

// RulesSet has the rules of a chain of any type.
//
// +kubebuilder:validation:MaxProperties=1
type RulesSet struct {
	// NatRules of a chain of type nat.
	NatRules []NatRule `json:"natRules,omitempty"`
	// FilterRules of a chain of type filter.
	FilterRules []FilterRule `json:"filterRules,omitempty"`
	// RouteRules of a chain of type route.
	RouteRules []RouteRule `json:"routeRules,omitempty"`
}
