// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

// Package plan computes all that the network namespace of a node or of a gateway must hold of ours, from what the API says
// of peers, gateways, nodes and addresses. docs/design/datapath.md explains what comes out, testdata has examples.
package plan

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"liqo.io/liqo/internal/datapath"
	"liqo.io/liqo/internal/policy"
	"liqo.io/liqo/internal/prefix"
)

// Object names an object of the API.
type Object struct{ Kind, Namespace, Name string }

// String is the object for people.
func (o Object) String() string {
	if o.Namespace == "" {
		return o.Kind + " " + o.Name
	}
	return o.Kind + " " + o.Namespace + "/" + o.Name
}

// Problem is something of an object that a state is without, and why.
type Problem struct {
	Of      Object
	Message string
	// Reason is that of a refusal: of what a user wrote, by every node and gateway. The controller-manager shows it, once for all of them.
	Reason string
}

// Reasons of refusals.
const (
	// ReasonAnotherGateway: another gateway leads to the peer.
	ReasonAnotherGateway = "AnotherGateway"
	// ReasonConfigurationElsewhere: the Configuration of the peer is in another namespace than the gateway.
	ReasonConfigurationElsewhere = "ConfigurationElsewhere"
	// ReasonUnusableMTU: packets cannot be as short, or as long, as a gateway says.
	ReasonUnusableMTU = "UnusableMTU"
	// ReasonNetworkInTheWay: a network of a peer is here what something else is.
	ReasonNetworkInTheWay = "NetworkInTheWay"
	// ReasonAnotherIP: an older IP has the address, or the alias.
	ReasonAnotherIP = "AnotherIP"
	// ReasonUnusableAddress: there is no way to the address of an IP, or none from its alias.
	ReasonUnusableAddress = "UnusableAddress"
)

// String is the problem for people.
func (p Problem) String() string { return fmt.Sprintf("%s: %s", p.Of, p.Message) }

// PeerKey is what the objects of one peering have in common.
type PeerKey struct{ Namespace, ClusterID string }

// Peer is a peer whose networks have their place here.
type Peer struct {
	Of             Object // a Configuration
	Since          time.Time
	Key            PeerKey
	Pods, External []prefix.Pair
}

// Tunnel leads to a peer. This is what the rest of the cluster knows of its gateway.
type Tunnel struct {
	Of    Object // a GatewayServer or GatewayClient
	Since time.Time
	Peer  PeerKey
	// Active is the address of the pod that has the tunnel; the zero value: none has.
	Active netip.Addr
	MTU    int // of the tunnel, in bytes; 0: names.DefaultMTU
	// Asked is the MTU that its user asked for, which may be none.
	Asked int
}

// ClusterNode is a node of this cluster.
type ClusterNode struct {
	Of    Object // an InternalNode
	Since time.Time
	// External are the node's addresses in front of peers, one of a family at most. Without any it has no part in the fabric.
	External []netip.Addr
	// Local and Remote are the sources with which the node reaches pods on itself and on others.
	Local, Remote netip.Addr
	// Addresses are more addresses of the node.
	Addresses []netip.Addr
	PodCIDRs  []netip.Prefix
}

// TranslatedIP is an address that peers, and with Masquerade nodes and pods, have for another one.
type TranslatedIP struct {
	Of         Object    // an IP
	Since      time.Time // when that was made: of several for one address the oldest counts
	Alias      netip.Addr
	Address    netip.Addr
	Masquerade bool
}

// Service is a Service with cluster IPs.
type Service struct {
	Of         Object
	ClusterIPs []netip.Addr
	Ports      []ServicePort
}

// ServicePort is a port of a Service and what is ready behind it.
type ServicePort struct {
	Protocol  uint8
	Port      uint16
	Endpoints []netip.AddrPort
}

// ReservedPrefix is a prefix that no peer may be shown under.
type ReservedPrefix struct {
	Prefix netip.Prefix
	By     string // "address of Node worker-1"
}

// Cluster is what all nodes and gateways of a cluster know. The order of what is in it means nothing: where two contradict
// each other the elder is right, which is the one with the earlier Since; of those without, the first by name.
type Cluster struct {
	Pods, Services, External []netip.Prefix // this cluster's own
	Peers                    []Peer
	// Held are prefixes of networks of peers, also of those whose Configuration has no place for them now: nothing else is there.
	Held    []netip.Prefix
	Tunnels []Tunnel
	Members []ClusterNode
	Aliases []TranslatedIP
	// ClusterIPs are the Services that aliases may be of.
	ClusterIPs []Service
	// Taken is more than what follows from all the above.
	Taken []ReservedPrefix
	// Routings and Firewalls are those of users that apply here.
	Routings  []Routing
	Firewalls []Firewall
}

// NodeInput is what a node knows.
type NodeInput struct {
	Cluster
	Name string
	// RulePriority is that of the rule that leads to peers; 0: defaultRulePriority.
	RulePriority int
}

// GatewayInput is what a replica of a gateway knows.
type GatewayInput struct {
	Cluster
	Of      Object // its GatewayServer or GatewayClient
	Peer    PeerKey
	Address netip.Addr // of this replica's pod
	Node    string     // where this replica runs
	Server  bool       // end of the tunnel
	MTU     int        // of the tunnel, in bytes; 0: names.DefaultMTU
	// Passing is the size of the largest packets that pass the tunnel, if that is less.
	Passing int
	// ProbePort is where both gateways answer each other on the tunnel, by UDP; 0: names.ConnectionCheckPort.
	ProbePort uint16
	// NoIPv6 is a kernel without IPv6, in which there is nothing to close.
	NoIPv6 bool
}

// Counters of nftables, by which dropped packets are known. Metrics have their names.
const (
	// CounterOuter has packets of the fabric from whoever may not send them, or with an inner source not his to use.
	CounterOuter = "outer_refused"
	// CounterStray has packets that reach a node with the source of a peer, and not by the fabric.
	CounterStray = "stray_refused"
	// CounterFreshSource, -Local and -Elsewhere have new flows that reach a node by the fabric, and are not from a peer, or to the
	// node itself, or to what is neither a pod nor exposed.
	CounterFreshSource    = "fresh_source_refused"
	CounterFreshLocal     = "fresh_local_refused"
	CounterFreshElsewhere = "fresh_elsewhere_refused"
	// CounterNoSource has packets of nodes to peers in a family in which the node has no address for them.
	CounterNoSource = "no_source_refused"
	// CounterFabricSource has packets that reach a gateway by the fabric with a source that is nobody's here.
	CounterFabricSource = "fabric_source_refused"
	// CounterPeerSource and -Destination have packets that leave the tunnel and are not the peer's, or are to what peers do not see.
	CounterPeerSource      = "peer_source_refused"
	CounterPeerDestination = "peer_destination_refused"
	// CounterExitSource and -Destination have packets that were on their way into the tunnel and are not ours, or not to the peer.
	CounterExitSource      = "exit_source_refused"
	CounterExitDestination = "exit_destination_refused"
	// CounterForward has packets that a gateway is no way for, CounterInput those to the gateway itself.
	CounterForward = "forward_refused"
	CounterInput   = "input_refused"
)

// byObject sorts a copy by the objects of its elements.
func byObject[T any](in []T, of func(T) Object) []T {
	out := slices.Clone(in)
	slices.SortFunc(out, func(a, b T) int {
		x, y := of(a), of(b)
		if c := cmp.Or(cmp.Compare(x.Namespace, y.Namespace), cmp.Compare(x.Name, y.Name), cmp.Compare(x.Kind, y.Kind)); c != 0 {
			return c
		}
		return cmp.Compare(fmt.Sprint(a), fmt.Sprint(b)) // of one name: whatever, but always the same
	})
	return out
}

// byRank sorts a copy by whose word counts.
func byRank[T any](in []T, of func(T) Object, since func(T) time.Time) []T {
	return sortByRank(in, of, func(v T) policy.Rank { return rankOf(of(v), since(v)) })
}

func sortByRank[T any](in []T, of func(T) Object, rank func(T) policy.Rank) []T {
	out := byObject(in, of) // of one rank: of different kinds
	slices.SortStableFunc(out, func(a, b T) int { return rank(a).Compare(rank(b)) })
	return out
}

func rankOf(of Object, since time.Time) policy.Rank {
	return policy.Rank{Since: since, Namespace: of.Namespace, Name: of.Name}
}

// Gateways sorts a copy of gateways by which is the one that leads to a peer. One that does not run is for others to replace.
func Gateways(in []Tunnel) []Tunnel {
	return sortByRank(in, func(g Tunnel) Object { return g.Of }, func(g Tunnel) policy.Rank {
		r := rankOf(g.Of, g.Since)
		r.Idle = !g.Active.IsValid()
		return r
	})
}

// sortedProblems has each problem once.
func sortedProblems(in []Problem) []Problem {
	return slices.Compact(byObject(in, func(p Problem) Object { return p.Of }))
}

func familyOf(p netip.Prefix) datapath.Family { return datapath.FamilyOf(p.Addr()) }
