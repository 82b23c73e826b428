// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package balance

import (
	"cmp"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"

	"liqo.io/liqo/playground/internal/spec"
)

// State has the objects of a cluster that a Plan depends on.
type State struct {
	Cluster  spec.Cluster
	Services []*corev1.Service
	Nodes    []*corev1.Node
	Slices   []*discoveryv1.EndpointSlice
}

// Plan has the addresses of each Service and the node that owns each address.
type Plan struct {
	Addresses map[string][]netip.Addr // by namespace/name; empty for a Service whose addresses are removed
	Owners    map[netip.Addr]string
}

// Decide allocates an address per family to every Service of type LoadBalancer. A Service keeps its addresses.
func Decide(s State) Plan {
	p := Plan{Addresses: map[string][]netip.Addr{}, Owners: map[netip.Addr]string{}}
	services := slices.Clone(s.Services)
	slices.SortFunc(services, func(a, b *corev1.Service) int {
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(serviceKey(a), serviceKey(b)))
	})
	used := map[netip.Addr]bool{}
	for _, svc := range services { // existing addresses first, so that no new Service gets them
		if isManaged(svc) {
			p.Addresses[serviceKey(svc)] = reserveAddresses(s.Cluster, svc, used)
		} else if len(publishedAddresses(s.Cluster, svc)) > 0 {
			p.Addresses[serviceKey(svc)] = nil
		}
	}
	for _, svc := range services {
		if !isManaged(svc) {
			continue
		}
		for _, family := range svc.Spec.IPFamilies {
			p.allocateAddress(s.Cluster, svc, family == corev1.IPv6Protocol, used)
		}
		owner := s.ownerNode(svc)
		for _, a := range p.Addresses[serviceKey(svc)] {
			if owner != "" {
				p.Owners[a] = owner
			}
		}
	}
	return p
}

func serviceKey(svc *corev1.Service) string { return svc.Namespace + "/" + svc.Name }

// isManaged reports whether the Service is of type LoadBalancer and has no class, which another implementation would serve.
func isManaged(svc *corev1.Service) bool {
	return svc.Spec.Type == corev1.ServiceTypeLoadBalancer && svc.Spec.LoadBalancerClass == nil && svc.DeletionTimestamp == nil
}

// publishedAddresses returns the addresses in the status of the Service that belong to the range of the cluster.
func publishedAddresses(c spec.Cluster, svc *corev1.Service) []netip.Addr {
	var addrs []netip.Addr
	for _, ingress := range svc.Status.LoadBalancer.Ingress {
		if a, err := netip.ParseAddr(ingress.IP); err == nil && inRange(c, a) {
			addrs = append(addrs, a)
		}
	}
	return addrs
}

func inRange(c spec.Cluster, a netip.Addr) bool {
	first, last := c.LoadBalancerRange(a.Is6())
	return a.Compare(first) >= 0 && a.Compare(last) <= 0
}

// reserveAddresses returns the published addresses of the Service's families that no other Service uses, and marks them as used.
func reserveAddresses(c spec.Cluster, svc *corev1.Service, used map[netip.Addr]bool) []netip.Addr {
	var reserved []netip.Addr
	for _, a := range publishedAddresses(c, svc) {
		family := corev1.IPv4Protocol
		if a.Is6() {
			family = corev1.IPv6Protocol
		}
		if !used[a] && slices.Contains(svc.Spec.IPFamilies, family) {
			used[a] = true
			reserved = append(reserved, a)
		}
	}
	return reserved
}

// allocateAddress allocates an address for a family that has none: the requested one, or the first unused one.
func (p Plan) allocateAddress(c spec.Cluster, svc *corev1.Service, ipv6 bool, used map[netip.Addr]bool) {
	k := serviceKey(svc)
	if slices.ContainsFunc(p.Addresses[k], func(a netip.Addr) bool { return a.Is6() == ipv6 }) {
		return
	}
	take := func(a netip.Addr) {
		used[a] = true
		p.Addresses[k] = append(p.Addresses[k], a)
	}
	//nolint:staticcheck // deprecated, but users set it
	if a, err := netip.ParseAddr(svc.Spec.LoadBalancerIP); err == nil && a.Is6() == ipv6 && inRange(c, a) && !used[a] {
		take(a)
		return
	}
	first, last := c.LoadBalancerRange(ipv6)
	for a := first; a.Compare(last) <= 0; a = a.Next() {
		if !used[a] {
			take(a)
			return
		}
	}
}

// ownerNode returns the first ready node; with externalTrafficPolicy Local, the first one that has an endpoint.
func (s State) ownerNode(svc *corev1.Service) string {
	local := svc.Spec.ExternalTrafficPolicy == corev1.ServiceExternalTrafficPolicyLocal
	for _, n := range s.Cluster.Nodes() {
		if s.isNodeReady(n.Name) && (!local || s.hasEndpoint(svc, n.Name)) {
			return n.Name
		}
	}
	return ""
}

func (s State) isNodeReady(name string) bool {
	for _, n := range s.Nodes {
		for _, c := range n.Status.Conditions {
			if n.Name == name && c.Type == corev1.NodeReady {
				return c.Status == corev1.ConditionTrue
			}
		}
	}
	return false
}

func (s State) hasEndpoint(svc *corev1.Service, node string) bool {
	for _, slice := range s.Slices {
		if slice.Namespace != svc.Namespace || slice.Labels[discoveryv1.LabelServiceName] != svc.Name {
			continue
		}
		for _, e := range slice.Endpoints {
			if e.NodeName != nil && *e.NodeName == node && (e.Conditions.Ready == nil || *e.Conditions.Ready) {
				return true
			}
		}
	}
	return false
}
