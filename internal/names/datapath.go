// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package names

// Ports and sizes of the network between clusters.
const (
	FabricPort = 6091
	// TunnelPort is where the server of a tunnel listens.
	TunnelPort = 51840
	// TunnelMark is that of WireGuard's own packets in a gateway. It has no bit of 0xcf80, which kube-proxy, Cilium and the CNI of AWS use.
	TunnelMark = 0x2071
	// ConnectionCheckPort is where gateways answer each other on the tunnel.
	ConnectionCheckPort = 12345
	// DefaultMTU is that of tunnels where a gateway asks for none, in bytes.
	DefaultMTU = 1340
	// MinMTU and MaxMTU are those that a tunnel can have, in bytes: what IPv4 needs (RFC 791), and what leaves room in a packet for
	// the 80 bytes that WireGuard and IPv6 add (https://www.wireguard.com/papers/wireguard.pdf, 5.4.6).
	MinMTU = 576
	MaxMTU = 65535 - 80
)

// HostUnreachable on an IP says that its address is nobody's to translate: true.
const HostUnreachable = "networking.liqo.io/host-unreachable"

// Labels that say whom a RouteConfiguration or a FirewallConfiguration is for.
const (
	RouteCategory       = "networking.liqo.io/route-category"
	RouteSubcategory    = "networking.liqo.io/route-subcategory"
	RouteUnique         = "networking.liqo.io/route-unique"
	FirewallCategory    = "networking.liqo.io/firewall-category"
	FirewallSubcategory = "networking.liqo.io/firewall-subcategory"
	FirewallUnique      = "networking.liqo.io/firewall-unique"

	// Values of the categories.
	TargetGateway = "gateway"
	TargetFabric  = "fabric"
	// Values of the subcategories. TargetFabric is one of both gateways' routes and gateways' firewalls.
	TargetFabricNode  = "fabric-node"
	TargetAllGateways = "all-gateways"
	TargetAllNodes    = "all-nodes"
	TargetSingleNode  = "single-node"
	TargetIPMapping   = "ip-mapping"
)
