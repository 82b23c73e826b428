// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package firewall

// MatchOperation compares.
//
// +kubebuilder:validation:Enum=eq;neq
type MatchOperation string

// Comparisons.
const (
	MatchOperationEq  MatchOperation = "eq"
	MatchOperationNeq MatchOperation = "neq"
)

// MatchPosition is the side of a packet.
//
// +kubebuilder:validation:Enum=src;dst
type MatchPosition string

// Sides of a packet.
const (
	MatchPositionSrc MatchPosition = "src"
	MatchPositionDst MatchPosition = "dst"
)

// MatchDevPosition is the side of an interface.
//
// +kubebuilder:validation:Enum=in;out
type MatchDevPosition string

// Sides of an interface.
const (
	MatchDevPositionIn  MatchDevPosition = "in"
	MatchDevPositionOut MatchDevPosition = "out"
)

// L4Proto is a transport protocol.
//
// +kubebuilder:validation:Enum=tcp;udp
type L4Proto string

// Transport protocols.
const (
	L4ProtoTCP L4Proto = "tcp"
	L4ProtoUDP L4Proto = "udp"
)

// MatchIP compares an address with an address, a network or a range a-b.
type MatchIP struct {
	// Value is the address, network or range.
	Value    string        `json:"value"`
	Position MatchPosition `json:"position"`
}

// MatchPort compares a port with a port or a range a-b.
type MatchPort struct {
	// Value is the port or range.
	Value    string        `json:"value"`
	Position MatchPosition `json:"position"`
}

// MatchProto compares the transport protocol.
type MatchProto struct {
	Value L4Proto `json:"value"`
}

// MatchDev compares the name of an interface.
type MatchDev struct {
	// Value is the name of the interface.
	Value    string           `json:"value"`
	Position MatchDevPosition `json:"position"`
}

// Match is true if all of its parts match.
type Match struct {
	Op    MatchOperation `json:"op"`
	IP    *MatchIP       `json:"ip,omitempty"`
	Port  *MatchPort     `json:"port,omitempty"`
	Proto *MatchProto    `json:"proto,omitempty"`
	Dev   *MatchDev      `json:"dev,omitempty"`
}
