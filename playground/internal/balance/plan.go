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

// State is what is known of a cluster.
type State struct {
	Cluster  spec.Cluster
	Services []*corev1.Service
	Nodes    []*corev1.Node
	Slices   []*discoveryv1.EndpointSlice
}

// Plan is what shall be: the addresses of each Service, and which node answers for each address.
type Plan struct {
	Addresses map[string][]netip.Addr // by namespace/name; empty for a Service that must lose its addresses
	Owners    map[netip.Addr]string
}

// Decide gives every Service of type LoadBalancer one address per family. A Service keeps what it has.
func Decide(s State) Plan {
	p := Plan{Addresses: map[string][]netip.Addr{}, Owners: map[netip.Addr]string{}}
	services := slices.Clone(s.Services)
	slices.SortFunc(services, func(a, b *corev1.Service) int {
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(key(a), key(b)))
	})
	used := map[netip.Addr]bool{}
	for _, svc := range services { // first those who have an address, or a newcomer could take it
		if ours(svc) {
			p.Addresses[key(svc)] = keep(s.Cluster, svc, used)
		} else if len(current(s.Cluster, svc)) > 0 {
			p.Addresses[key(svc)] = nil
		}
	}
	for _, svc := range services {
		if !ours(svc) {
			continue
		}
		for _, family := range svc.Spec.IPFamilies {
			p.add(s.Cluster, svc, family == corev1.IPv6Protocol, used)
		}
		owner := s.owner(svc)
		for _, a := range p.Addresses[key(svc)] {
			if owner != "" {
				p.Owners[a] = owner
			}
		}
	}
	return p
}

func key(svc *corev1.Service) string { return svc.Namespace + "/" + svc.Name }

// ours: another implementation may serve a class of its own.
func ours(svc *corev1.Service) bool {
	return svc.Spec.Type == corev1.ServiceTypeLoadBalancer && svc.Spec.LoadBalancerClass == nil && svc.DeletionTimestamp == nil
}

// current are the addresses that the Service has from this cluster's range.
func current(c spec.Cluster, svc *corev1.Service) []netip.Addr {
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

// keep returns the current addresses that are still wanted and not another Service's.
func keep(c spec.Cluster, svc *corev1.Service, used map[netip.Addr]bool) []netip.Addr {
	var kept []netip.Addr
	for _, a := range current(c, svc) {
		family := corev1.IPv4Protocol
		if a.Is6() {
			family = corev1.IPv6Protocol
		}
		if !used[a] && slices.Contains(svc.Spec.IPFamilies, family) {
			used[a] = true
			kept = append(kept, a)
		}
	}
	return kept
}

// add finds an address for a family that has none: the asked one, or the first that is free.
func (p Plan) add(c spec.Cluster, svc *corev1.Service, ipv6 bool, used map[netip.Addr]bool) {
	k := key(svc)
	if slices.ContainsFunc(p.Addresses[k], func(a netip.Addr) bool { return a.Is6() == ipv6 }) {
		return
	}
	take := func(a netip.Addr) {
		used[a] = true
		p.Addresses[k] = append(p.Addresses[k], a)
	}
	//nolint:staticcheck // deprecated, and still what users write
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

// owner is the node that answers: the first ready one, and with externalTrafficPolicy Local one that has an endpoint.
func (s State) owner(svc *corev1.Service) string {
	local := svc.Spec.ExternalTrafficPolicy == corev1.ServiceExternalTrafficPolicyLocal
	for _, n := range s.Cluster.Nodes() {
		if s.ready(n.Name) && (!local || s.hasEndpoint(svc, n.Name)) {
			return n.Name
		}
	}
	return ""
}

func (s State) ready(name string) bool {
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
