// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package names

// Ports and sizes of the network between clusters.
const (
	FabricPort = 6091
	// TunnelPort is the UDP port of a tunnel's server.
	TunnelPort = 51840
	// TunnelMark is the fwmark of WireGuard's outer packets in a gateway. It avoids the bits 0xcf80, used by kube-proxy, Cilium and the AWS
	// CNI.
	TunnelMark = 0x2071
	// ConnectionCheckPort is the UDP port of the connection check between gateways on the tunnel.
	ConnectionCheckPort = 12345
	// ReplicaPort is the UDP port of the messages between replicas of a gateway.
	ReplicaPort = 12346
	// DefaultMTU is the MTU in bytes of tunnels without a requested MTU.
	DefaultMTU = 1340
	// MinMTU and MaxMTU limit the MTU of a tunnel in bytes: the minimum of IPv4 (RFC 791), and the largest packet less the 80 bytes added by
	// WireGuard and IPv6 (https://www.wireguard.com/papers/wireguard.pdf, 5.4.6).
	MinMTU = 576
	MaxMTU = 65535 - 80
)

// HostUnreachable on an IP excludes the address from translation: true.
const HostUnreachable = "networking.liqo.io/host-unreachable"

// ReachableFromPeers labels, by the value true, namespaces and pods that peers reach. It matters in clusters where peers otherwise reach offloaded
// pods only.
const ReachableFromPeers = "networking.liqo.io/reachable-from-peers"

// Labels for the selection of the targets of a RouteConfiguration or FirewallConfiguration.
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
	// Values of the subcategories. TargetFabric is a subcategory of gateways' routes and of gateways' firewalls.
	TargetFabricNode  = "fabric-node"
	TargetAllGateways = "all-gateways"
	TargetAllNodes    = "all-nodes"
	TargetSingleNode  = "single-node"
	TargetIPMapping   = "ip-mapping"
)
