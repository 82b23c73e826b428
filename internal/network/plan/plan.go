// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

// Package plan computes the desired state of the network namespace of a node or gateway from peers, gateways, nodes and addresses in the API.
// docs/design/datapath.md explains the result, testdata has examples.
package plan

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"liqo.io/liqo/internal/datapath"
	"liqo.io/liqo/internal/policy"
	"liqo.io/liqo/internal/prefix"
)

// Object identifies an API object.
type Object struct{ Kind, Namespace, Name string }

// String returns the object for messages.
func (o Object) String() string {
	if o.Namespace == "" {
		return o.Kind + " " + o.Name
	}
	return o.Kind + " " + o.Namespace + "/" + o.Name
}

// Problem is a part of an object left out of a state, and the reason.
type Problem struct {
	Of      Object
	Message string
	// Reason is set for rejections: parts of users' objects left out by every node and gateway. The controller-manager publishes these once
	// for the cluster.
	Reason string
}

// Reasons of rejections.
const (
	// ReasonAnotherGateway: the peer has another gateway.
	ReasonAnotherGateway = "AnotherGateway"
	// ReasonConfigurationElsewhere: the Configuration of the peer is in another namespace than the gateway.
	ReasonConfigurationElsewhere = "ConfigurationElsewhere"
	// ReasonUnusableMTU: the MTU of a gateway is too small or too large.
	ReasonUnusableMTU = "UnusableMTU"
	// ReasonNetworkInTheWay: the local CIDR of a peer's network overlaps another prefix.
	ReasonNetworkInTheWay = "NetworkInTheWay"
	// ReasonAnotherIP: an older IP has the address or the translated IP.
	ReasonAnotherIP = "AnotherIP"
	// ReasonRouteNeeded: the host of an IP without masquerade has to know a route back to the peer. Nothing is left out.
	ReasonRouteNeeded = "RouteNeeded"
	// ReasonUnusableAddress: the address of an IP, or its translated IP, is not routable.
	ReasonUnusableAddress = "UnusableAddress"
)

// String returns the problem for messages.
func (p Problem) String() string { return fmt.Sprintf("%s: %s", p.Of, p.Message) }

// PeerKey identifies a peering by namespace and cluster ID, common to its objects.
type PeerKey struct{ Namespace, ClusterID string }

// Peer is a peer whose networks have local CIDRs.
type Peer struct {
	Of             Object // a Configuration
	Since          time.Time
	Key            PeerKey
	Pods, External []prefix.Pair
}

// Tunnel is a peer's gateway as seen by the rest of the cluster.
type Tunnel struct {
	Of    Object // a GatewayServer or GatewayClient
	Since time.Time
	Peer  PeerKey
	// Active is the address of the active gateway pod; the zero value: none is active.
	Active netip.Addr
	// Standby are the addresses of the other running replicas. A standby gets everything but the routes.
	Standby []netip.Addr
	MTU     int // of the tunnel, in bytes; 0: names.DefaultMTU
	// Asked is the MTU requested by the user; 0: none.
	Asked int
}

// allAddresses returns the addresses of all running replicas.
func (g Tunnel) allAddresses() []netip.Addr {
	if !g.Active.IsValid() {
		return g.Standby
	}
	return append([]netip.Addr{g.Active}, g.Standby...)
}

// ClusterNode is a node of this cluster.
type ClusterNode struct {
	Of    Object // an InternalNode
	Since time.Time
	// External are the node's source addresses towards peers, at most one per family. A node without External is not part of the fabric.
	External []netip.Addr
	// Local and Remote are the source addresses towards pods on the node itself and on other nodes.
	Local, Remote netip.Addr
	// Addresses are further addresses of the node.
	Addresses []netip.Addr
	PodCIDRs  []netip.Prefix
}

// TranslatedIP is an address that peers, and with Masquerade also nodes and pods, use for another address.
type TranslatedIP struct {
	Of         Object    // an IP
	Since      time.Time // creation time: the oldest of several for one address wins
	Alias      netip.Addr
	Address    netip.Addr
	Masquerade bool
	// Previous are earlier aliases, by which peers still reach the address; at most ipamv1alpha1.MaxPreviousIPs.
	Previous []netip.Addr
	// Peers are the cluster IDs of the only peers that may use the alias; nil: all.
	Peers []string
}

// IsSameTranslation reports whether two states of an object translate alike, for any peer.
func (a TranslatedIP) IsSameTranslation(b TranslatedIP) bool {
	return a.Of == b.Of && a.Since.Equal(b.Since) && a.Alias == b.Alias && a.Address == b.Address && slices.Equal(a.Previous, b.Previous)
}

// withPrevious returns the translation of each alias.
func (a TranslatedIP) withPrevious() []TranslatedIP {
	out := []TranslatedIP{a}
	for _, alias := range a.Previous {
		a.Alias = alias
		out = append(out, a)
	}
	return out
}

// Service is a Service with cluster IPs.
type Service struct {
	Of         Object
	ClusterIPs []netip.Addr
	Ports      []ServicePort
}

// ServicePort is a port of a Service with its ready endpoints.
type ServicePort struct {
	Protocol  uint8
	Port      uint16
	Endpoints []netip.AddrPort
}

// ReservedPrefix is a prefix that must not overlap a local CIDR of a peer.
type ReservedPrefix struct {
	Prefix netip.Prefix
	By     string // "address of Node worker-1"
}

// Cluster is the input common to all nodes and gateways of a cluster. The order of its lists has no meaning: of conflicting objects the oldest
// by Since wins, then the first by name (precedence).
type Cluster struct {
	Pods, Services, External []netip.Prefix // of this cluster
	Peers                    []Peer
	// Held are the prefixes reserved for networks of peers, including networks without a Configuration at present: no other use is allowed.
	Held    []netip.Prefix
	Tunnels []Tunnel
	Members []ClusterNode
	Aliases []TranslatedIP
	// ClusterIPs are Services whose cluster IPs may have a translated IP.
	ClusterIPs []Service
	// Taken are further reserved prefixes.
	Taken []ReservedPrefix
	// Routings and Firewalls are users' objects that apply to this node or gateway.
	Routings  []Routing
	Firewalls []Firewall
}

// NodeInput is the input of the plan for a node.
type NodeInput struct {
	Cluster
	Name string
	// RulePriority is the priority of the policy routing rule for peers; 0: defaultRulePriority.
	RulePriority int
	// Access restricts the pods of the node.
	Access PodAccess
}

// GatewayInput is the input of the plan for a replica of a gateway.
type GatewayInput struct {
	Cluster
	Of      Object // its GatewayServer or GatewayClient
	Peer    PeerKey
	Address netip.Addr // of this replica's pod
	Node    string     // of this replica
	Server  bool       // this gateway is the server of the tunnel
	MTU     int        // of the tunnel, in bytes; 0: names.DefaultMTU
	// Passing is the path MTU of the tunnel in bytes, if smaller than MTU.
	Passing int
	// ProbePort is the UDP port of the connection check on the tunnel; 0: names.ConnectionCheckPort.
	ProbePort uint16
	// NoIPv6 is set for a kernel without IPv6, which needs no table to drop IPv6.
	NoIPv6 bool
}

// nftables counters of dropped packets. Metrics have the same names.
const (
	// CounterOuter counts fabric packets from a foreign outer source, or with an inner source not allowed for the outer one (anti-spoofing).
	CounterOuter = "outer_refused"
	// CounterStray counts packets with the source of a peer that reach a node from outside the fabric (anti-spoofing).
	CounterStray = "stray_refused"
	// CounterFreshSource, -Local and -Elsewhere count new connections reaching a node by the fabric: with a source that is no peer's, to the node
	// itself, or to a destination that is neither a pod nor exposed.
	CounterFreshSource    = "fresh_source_refused"
	CounterFreshLocal     = "fresh_local_refused"
	CounterFreshElsewhere = "fresh_elsewhere_refused"
	// CounterFreshPod counts new connections of peers to pods that they may not reach.
	CounterFreshPod = "fresh_pod_refused"
	// CounterConsumerPod counts packets of consumers' pods to nodes, metadata services and the API server.
	CounterConsumerPod = "consumer_pod_refused"
	// CounterNoSource counts packets to peers in a family for which the node has no external address.
	CounterNoSource = "no_source_refused"
	// CounterFabricSource counts packets that reach a gateway by the fabric with an unknown source.
	CounterFabricSource = "fabric_source_refused"
	// CounterPeerSource and -Destination count packets from the tunnel with a source that is not the peer's, or with a destination not exposed
	// to peers.
	CounterPeerSource      = "peer_source_refused"
	CounterPeerDestination = "peer_destination_refused"
	// CounterExitSource and -Destination count packets towards the tunnel with an unexposed source, or with a destination that is not the peer's.
	CounterExitSource      = "exit_source_refused"
	CounterExitDestination = "exit_destination_refused"
	// CounterForward counts packets that a gateway must not forward, CounterInput packets to the gateway itself.
	CounterForward = "forward_refused"
	CounterInput   = "input_refused"
)

// byObject returns a copy sorted by the objects of the elements.
func byObject[T any](in []T, of func(T) Object) []T {
	out := slices.Clone(in)
	slices.SortFunc(out, func(a, b T) int { return compareObjects(a, b, of) })
	return out
}

func compareObjects[T any](a, b T, of func(T) Object) int {
	x, y := of(a), of(b)
	if c := cmp.Or(strings.Compare(x.Namespace, y.Namespace), strings.Compare(x.Name, y.Name), strings.Compare(x.Kind, y.Kind)); c != 0 {
		return c
	}
	return strings.Compare(fmt.Sprint(a), fmt.Sprint(b)) // of one name: any stable order
}

// byRank returns a copy sorted by precedence: the oldest first.
func byRank[T any](in []T, of func(T) Object, since func(T) time.Time) []T {
	return sortByRank(in, of, func(v T) policy.Rank { return rankOf(of(v), since(v)) })
}

func sortByRank[T any](in []T, of func(T) Object, rank func(T) policy.Rank) []T {
	out := slices.Clone(in)
	slices.SortFunc(out, func(a, b T) int {
		if c := rank(a).Compare(rank(b)); c != 0 {
			return c
		}
		return compareObjects(a, b, of) // of one rank: objects of different kinds
	})
	return out
}

func rankOf(of Object, since time.Time) policy.Rank {
	return policy.Rank{Since: since, Namespace: of.Namespace, Name: of.Name}
}

// Gateways returns a copy of the gateways sorted by precedence for their peer. An inactive gateway ranks last: an active gateway replaces an inactive
// gateway.
func Gateways(in []Tunnel) []Tunnel {
	return sortByRank(in, func(g Tunnel) Object { return g.Of }, func(g Tunnel) policy.Rank {
		r := rankOf(g.Of, g.Since)
		r.Idle = !g.Active.IsValid()
		return r
	})
}

// sortedProblems returns the problems sorted and without duplicates.
func sortedProblems(in []Problem) []Problem {
	return slices.Compact(byObject(in, func(p Problem) Object { return p.Of }))
}

func familyOf(p netip.Prefix) datapath.Family { return datapath.FamilyOf(p.Addr()) }
