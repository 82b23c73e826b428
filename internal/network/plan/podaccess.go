// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"
	"net/netip"
	"slices"

	"liqo.io/liqo/internal/datapath"
)

// PodAccess restricts the pods of a node reached by peers, and the destinations reached by pods of consumers. The zero value restricts nothing.
type PodAccess struct {
	// OffloadedOnly: peers reach only pods in remote namespaces of their own, and those with Reachable.
	OffloadedOnly bool
	// IsolateConsumers: pods in remote namespaces reach no node, no metadata service of a cloud, and not the API server. They reach DNS
	// servers anywhere.
	IsolateConsumers bool
	// Pods are the pods of the node.
	Pods []LocalPod
}

// LocalPod is a pod of the node.
type LocalPod struct {
	Of Object
	// Addresses are empty while the pod starts.
	Addresses []netip.Addr
	// Consumer is the cluster ID of the consumer in whose remote namespace the pod is; empty for other pods.
	Consumer string
	// Unknown is set while the namespace of the pod is not known, which may be a remote namespace: the pod counts as a pod of any consumer.
	Unknown bool
	// Reachable pods are reached by all peers.
	Reachable bool
	// APIServer is set for pods with a token of this cluster, which reach its API server.
	APIServer bool
}

func (p LocalPod) isConsumers() bool { return p.Consumer != "" || p.Unknown }

// metadataAddresses are the metadata services of clouds, and the link-local addresses, which have most of them.
var metadataAddresses = []netip.Prefix{
	netip.MustParsePrefix("169.254.0.0/16"),
	netip.MustParsePrefix("100.100.100.200/32"), // Alibaba Cloud
	netip.MustParsePrefix("168.63.129.16/32"),   // Azure
	netip.MustParsePrefix("192.0.0.192/32"),     // Oracle Cloud
	netip.MustParsePrefix("fe80::/10"),
	netip.MustParsePrefix("fd00:ec2::254/128"), // AWS
	netip.MustParsePrefix("fd20:ce::254/128"),  // Google Cloud
}

const portDNS = 53

// addressesOfPods returns the addresses of the selected pods as prefixes.
func (a PodAccess) addressesOfPods(selected func(LocalPod) bool) []netip.Prefix {
	var out []netip.Prefix
	for _, p := range a.Pods {
		if selected(p) {
			out = append(out, hostPrefixes(p.Addresses...)...)
		}
	}
	return out
}

// guardedPods returns the rules for new connections of peers to pods, and their sets.
func (n *nodePlan) guardedPods(f datapath.Family) ([]rule, []datapath.Set) {
	if !n.access.OffloadedOnly {
		return []rule{{lookupIn("pods", datapath.Destination), accept}}, nil
	}
	own := datapath.Set{Name: "peer_pods", Key: []datapath.Type{datapath.TypeAddress, datapath.TypeAddress}}
	for _, net := range n.networks {
		of := n.access.addressesOfPods(func(p LocalPod) bool { return p.Consumer != "" && p.Consumer == net.peer.ClusterID && !p.Reachable })
		for _, p := range prefixSet(ofFamily(of, f)) {
			if familyOf(net.Local) == f {
				own.Elements = append(own.Elements, datapath.Element{Key: []datapath.Value{datapath.Prefix(net.Local), datapath.Addr(p.Addr())}})
			}
		}
	}
	return []rule{
		{lookupIn("reachable_pods", datapath.Destination), accept},
		{lookupIn("peer_pods", datapath.Source, datapath.Destination), accept},
		dropCounted(CounterFreshPod, lookupIn("pods", datapath.Destination)),
	}, []datapath.Set{newPrefixSet("reachable_pods", f, n.access.addressesOfPods(func(p LocalPod) bool { return p.Reachable })), own}
}

// isolatedSources returns the addresses of consumers' pods: the known addresses, and the node's share of the pod network. A consumer's pod may have
// any address of the share outside exempt: while the pod starts, and while its containers outlive its object.
func (n *nodePlan) isolatedSources() (sources, exempt []netip.Prefix) {
	known := n.access.addressesOfPods(LocalPod.isConsumers)
	exempt = append(n.access.addressesOfPods(func(p LocalPod) bool { return !p.isConsumers() }), hostPrefixes(n.localGateways()...)...) // also gateways that just started
	for _, m := range n.members {
		if m.Of != n.self.Of { // CNIs that ignore the shares of nodes give pods elsewhere addresses of this share
			exempt = append(exempt, slices.DeleteFunc(slices.Clone(m.PodCIDRs), func(p netip.Prefix) bool { return !n.isInShare(p) })...)
		}
	}
	exempt = slices.DeleteFunc(exempt, func(p netip.Prefix) bool { return slices.Contains(known, p) })
	return append(known, n.self.PodCIDRs...), exempt
}

// isInShare reports whether the prefix is a part of the node's share of the pod network.
func (n *nodePlan) isInShare(p netip.Prefix) bool {
	return slices.ContainsFunc(n.self.PodCIDRs, func(share netip.Prefix) bool { return share.Bits() < p.Bits() && share.Contains(p.Addr()) })
}

// hostAddresses returns the addresses of nodes. Of each share of the pod network they include the first two, which CNIs give to the node.
func (n *nodePlan) hostAddresses() []netip.Prefix {
	var out []netip.Prefix
	for _, t := range n.taken {
		out = append(out, t.Prefix)
	}
	for _, m := range n.members {
		out = append(out, hostPrefixes(slices.Concat(m.nodeAddresses(), m.External)...)...)
		for _, p := range m.PodCIDRs {
			if first := p.Masked().Addr(); p.Bits() < first.BitLen()-1 {
				out = append(out, hostPrefixes(first, first.Next())...)
			}
		}
	}
	return out
}

// addIsolation adds the chains that keep consumers' pods from nodes, metadata services and the API server, after DNAT. With kube-proxy in IPVS mode
// cluster IPs are local addresses, translated later.
func (n *nodePlan) addIsolation(t *datapath.Table, f datapath.Family) {
	if !n.access.IsolateConsumers {
		return
	}
	port := []datapath.Field{datapath.Destination, datapath.L4Protocol, datapath.DestinationPort}
	sources, exempt := n.isolatedSources()
	t.Sets = append(t.Sets,
		newPrefixSet("consumer_pods", f, sources),
		newPrefixSet("other_pods", f, exempt),
		newPrefixSet("api_clients", f, n.access.addressesOfPods(func(p LocalPod) bool { return p.Consumer != "" && p.APIServer })),
		newPrefixSet("hosts", f, append(n.hostAddresses(), metadataAddresses...)),
		n.apiServerSet(f),
	)
	rules := []rule{
		{isProtocol(datapath.UDP), toPort(portDNS), accept},
		{isProtocol(datapath.TCP), toPort(portDNS), accept},
		{lookupIn("api_clients", datapath.Source), lookupIn("api_server", port...), accept},
		dropCounted(CounterConsumerPod, lookupIn("api_server", port...)),
		{lookupIn("services", datapath.Destination), accept},
	}
	if f == datapath.IPv6 {
		rules = append(rules, appendStatements(matchICMP(f, nil, []uint32{133, 134, 135, 136}), accept)) // neighbour discovery
	}
	rules = append(rules,
		dropCounted(CounterConsumerPod, datapath.Word{Field: datapath.DestinationScope, Word: datapath.Local}),
		dropCounted(CounterConsumerPod, lookupIn("hosts", datapath.Destination)),
	)
	t.Chains = append(t.Chains,
		newBaseChain("consumers", datapath.Filter, datapath.Prerouting, afterDestinationNAT, rule{
			notFrom("lo"), lookupIn("consumer_pods", datapath.Source), notIn("other_pods", datapath.Source),
			datapath.Word{Field: datapath.FlowState, Not: true, Word: datapath.Established}, datapath.Word{Field: datapath.FlowState, Not: true, Word: datapath.Related}, goTo("consumer"),
		}),
		newChain("consumer", rules...),
	)
}

// apiServerSet returns the cluster IPs and endpoints of the API server, and of the proxy through which peers reach the API server.
func (n *nodePlan) apiServerSet(f datapath.Family) datapath.Set {
	out := datapath.Set{Name: "api_server", Key: []datapath.Type{datapath.TypeAddress, datapath.TypeProtocol, datapath.TypePort}}
	seen := map[string]bool{}
	add := func(at netip.Addr, protocol uint8, port uint16) {
		id := fmt.Sprint(at, protocol, port)
		if isUsable(at) && datapath.FamilyOf(at) == f && !seen[id] {
			seen[id] = true
			out.Elements = append(out.Elements, datapath.Element{Key: []datapath.Value{datapath.Addr(at), datapath.ProtocolValue(protocol), datapath.Port(port)}})
		}
	}
	for _, s := range n.clusterIPs {
		for _, p := range s.Ports {
			for _, a := range s.ClusterIPs {
				add(a, p.Protocol, p.Port)
			}
			for _, e := range p.Endpoints {
				add(e.Addr(), p.Protocol, e.Port())
			}
		}
	}
	return out
}
