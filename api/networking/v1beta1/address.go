// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package v1beta1

// CIDR is an IPv4 or IPv6 network.
//
// +kubebuilder:validation:Format=cidr
type CIDR string

// String returns the network as written.
func (c CIDR) String() string { return string(c) }

// IP is an IPv4 or IPv6 address.
//
// +kubebuilder:validation:Format=ip
type IP string

// String returns the address as written.
func (i IP) String() string { return string(i) }
