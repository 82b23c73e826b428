// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package provider

import (
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	ipamv1alpha1 "liqo.io/liqo/api/ipam/v1alpha1"
	offv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/names"
	"liqo.io/liqo/internal/policy"
	"liqo.io/liqo/internal/prefix"
)

const (
	// madeFromSlice is the value of the label ManagedBy on EndpointSlices made from ShadowEndpointSlices.
	madeFromSlice = "shadowendpointslice"
	// ofAnother is the prefix of the kind of a target in another cluster.
	ofAnother = "Remote"
)

// peerRoute describes how addresses of a consumer are reached.
type peerRoute struct {
	// flat is true if the clusters share a flat network without Liqo: addresses of the consumer are the same in both clusters.
	// Addresses in use by this cluster are excluded: a Service of the consumer would send to foreign targets.
	flat bool
	own  []netip.Prefix
	// placed is true if peer maps the networks of the consumer to those of this cluster.
	placed bool
	peer   prefix.Map
	// up is true if the tunnel is connected.
	up bool
	// direct are the listed endpoints of clusters other than the consumer, by cluster ID.
	direct map[string]directRoute
}

// directRoute describes how endpoints of another cluster than the consumer are reached.
type directRoute struct {
	// addresses are the addresses attributed to the cluster by the consumer.
	addresses map[string]bool
	// placed is true if pods maps the networks of the pods of the cluster to those of this cluster, and direct connections are permitted.
	placed bool
	pods   prefix.Map
	up     bool
}

// toLocal translates an address of the cluster to this cluster. The result is false outside the networks of the cluster's pods: the consumer
// does not choose the targets.
func (d directRoute) toLocal(text string) (netip.Addr, bool) {
	addr, err := netip.ParseAddr(text)
	if err != nil || !d.placed {
		return addr, false
	}
	return d.pods.ToLocal(addr)
}

// toLocal translates an address of the consumer to this cluster. The result is false for addresses outside the consumer's
// networks, and for addresses invalid in an EndpointSlice.
func (w peerRoute) toLocal(text string) (netip.Addr, bool) {
	addr, err := netip.ParseAddr(text)
	if err != nil || addr.Zone() != "" || addr.Is4In6() {
		return addr, false
	}
	ok := w.flat && !slices.ContainsFunc(w.own, func(p netip.Prefix) bool { return p.Contains(addr) })
	if !w.flat {
		addr, ok = w.peer.ToLocal(addr)
	}
	return addr, ok && !addr.IsUnspecified() && !addr.IsLoopback() && !addr.IsLinkLocalUnicast() && !addr.IsMulticast()
}

// isAwaited reports whether an address is in a network of the consumer that is not remapped yet.
func (w peerRoute) isAwaited(text string) bool {
	addr, err := netip.ParseAddr(text)
	return err == nil && w.peer.IsAwaited(addr)
}

// inUse returns the known prefixes in use by this cluster: of its nodes, pods and Services, and of peers as
// translated by this cluster. Reserved networks are left out: they may contain foreign networks.
func inUse(nodes []corev1.Node, networks []ipamv1alpha1.Network, services []networkingv1.ServiceCIDR, installation string) []netip.Prefix {
	var out []netip.Prefix
	add := func(text string) {
		if p, err := netip.ParsePrefix(text); err == nil {
			out = append(out, p)
		}
	}
	for i := range nodes {
		for _, cidr := range nodes[i].Spec.PodCIDRs {
			add(cidr)
		}
		for _, a := range nodes[i].Status.Addresses {
			if addr, err := netip.ParseAddr(a.Address); err == nil {
				out = append(out, netip.PrefixFrom(addr, addr.BitLen()))
			}
		}
	}
	for i := range networks {
		n := &networks[i]
		kind := n.Labels[names.NetworkType]
		if n.Namespace != installation {
			kind = ""
		}
		if kind == names.NetworkTypeReserved {
			continue
		}
		if kind == names.NetworkTypePod || kind == names.NetworkTypeService {
			add(string(n.Spec.CIDR)) // these Networks need no grant
		}
		add(string(n.Status.CIDR))
	}
	for i := range services {
		for _, cidr := range services[i].Spec.CIDRs {
			add(cidr)
		}
	}
	return out
}

// endpointSlice returns the EndpointSlice for a ShadowEndpointSlice, and the dropped addresses: addresses that do not belong to the
// consumer. Labels and annotations that match the patterns of metadata are left out. While the networks of the consumer are not
// mapped, the EndpointSlice has no endpoints in them.
func endpointSlice(ses *offv1beta1.ShadowEndpointSlice, consumer string, w peerRoute, metadata ...string) (want *discoveryv1.EndpointSlice, dropped []string) {
	template := ses.Spec.Template.DeepCopy()
	want = &discoveryv1.EndpointSlice{
		TypeMeta: metav1.TypeMeta{APIVersion: discoveryv1.SchemeGroupVersion.String(), Kind: "EndpointSlice"},
		ObjectMeta: metav1.ObjectMeta{
			Namespace: ses.Namespace, Name: ses.Name, Labels: sliceLabels(ses, consumer, metadata), Annotations: sliceAnnotations(ses, metadata),
		},
		AddressType: template.AddressType,
		Ports:       template.Ports,
		Endpoints:   []discoveryv1.Endpoint{},
	}
	if !w.flat && !w.placed {
		return want, nil
	}
	for i := range template.Endpoints {
		endpoint, wrong := endpointOf(&template.Endpoints[i], template.AddressType, consumer, w)
		if wrong != "" {
			if !w.isAwaited(wrong) {
				dropped = append(dropped, wrong)
			}
			continue
		}
		want.Endpoints = append(want.Endpoints, endpoint)
	}
	return want, dropped
}

// endpointOf returns the endpoint with the fields that a consumer may set, or the address for which the endpoint is dropped.
// The result names neither a node nor an object of this cluster, independently of the consumer's input.
func endpointOf(e *discoveryv1.Endpoint, family discoveryv1.AddressType, consumer string, w peerRoute) (out discoveryv1.Endpoint, wrong string) {
	out = discoveryv1.Endpoint{Conditions: e.Conditions, Hostname: e.Hostname, NodeName: &consumer}
	if len(e.Addresses) == 0 {
		return out, "none"
	}
	toLocal, up := w.toLocal, w.flat || w.up
	if e.NodeName != nil {
		// The consumer names the cluster as the node: two clusters may have the same address.
		d := w.direct[*e.NodeName]
		switch {
		case d.addresses[e.Addresses[0]]:
			toLocal, up = d.toLocal, d.up
		case *e.NodeName != consumer: // also if the list is unreadable
			return out, e.Addresses[0]
		}
	}
	for _, text := range e.Addresses {
		addr, ok := toLocal(text)
		if !ok || familyOf(addr) != family {
			return out, text
		}
		out.Addresses = append(out.Addresses, addr.String())
	}
	if e.TargetRef != nil && strings.HasPrefix(e.TargetRef.Kind, ofAnother) {
		out.TargetRef = e.TargetRef
	}
	if !up {
		out.Conditions.Ready, out.Conditions.Serving = new(false), new(false)
	}
	return out, ""
}

func familyOf(addr netip.Addr) discoveryv1.AddressType {
	if addr.Is4() {
		return discoveryv1.AddressTypeIPv4
	}
	return discoveryv1.AddressTypeIPv6
}

func sliceLabels(ses *offv1beta1.ShadowEndpointSlice, consumer string, dropped []string) map[string]string {
	out := map[string]string{}
	for key, value := range ses.Labels {
		if policy.KeepsLabel(key, value, dropped) {
			out[key] = value
		}
	}
	out[names.OffloadingOrigin] = consumer
	out[names.ManagedBy] = madeFromSlice
	out[discoveryv1.LabelManagedBy] = names.EndpointSliceManager
	return out
}

func sliceAnnotations(ses *offv1beta1.ShadowEndpointSlice, dropped []string) map[string]string {
	out := map[string]string{}
	for key, value := range ses.Annotations {
		owned := key == corev1.LastAppliedConfigAnnotation || key == names.DirectConnections || strings.HasPrefix(key, names.AppliedHash)
		if !owned && policy.KeepsAnnotation(key, dropped) {
			out[key] = value
		}
	}
	return out
}
