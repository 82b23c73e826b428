// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	ipamv1alpha1 "liqo.io/liqo/api/ipam/v1alpha1"
	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
	"liqo.io/liqo/internal/datapath"
	"liqo.io/liqo/internal/names"
	"liqo.io/liqo/internal/prefix"
)

// Conversion of API objects into inputs. An unreadable field is a Problem of its object; a missing field is no Problem.

// PeerOf converts a Configuration; it returns false while the networks have no local CIDRs.
func PeerOf(c *networkingv1beta1.Configuration) (Peer, bool, []Problem) {
	r := objectReader{of: Object{"Configuration", c.Namespace, c.Name}}
	networks, placed, errs := prefix.Placed(c)
	for _, err := range errs {
		r.reject("%v", err)
	}
	return Peer{Of: r.of, Since: c.CreationTimestamp.Time, Key: keyOf(c), Pods: networks.Pods, External: networks.External}, placed, r.problems
}

// TunnelOfServer converts a GatewayServer; it returns false while the gateway is being deleted.
func TunnelOfServer(g *networkingv1beta1.GatewayServer) (Tunnel, bool, []Problem) {
	return tunnelOf("GatewayServer", g, g.Spec.MTU, g.Status.MTU, g.Status.InternalEndpoint, g.Status.Replicas)
}

// TunnelOfClient converts a GatewayClient; it returns false while the gateway is being deleted.
func TunnelOfClient(g *networkingv1beta1.GatewayClient) (Tunnel, bool, []Problem) {
	return tunnelOf("GatewayClient", g, g.Spec.MTU, g.Status.MTU, g.Status.InternalEndpoint, g.Status.Replicas)
}

// tunnelMTU returns the MTU reported by the gateway, limited to the requested one; 0 if unknown.
func tunnelMTU(requested, is int) int {
	most := requested
	if requested != 0 {
		most = UsableMTU(requested)
	}
	if is < names.MinMTU || is > names.MaxMTU || most != 0 && is > most {
		return most
	}
	return is
}

// tunnelOf ignores gateways being deleted: their address may soon belong to a foreign pod.
func tunnelOf(kind string, o metav1.Object, requested, is int, at *networkingv1beta1.InternalGatewayEndpoint, replicas []networkingv1beta1.GatewayReplica) (Tunnel, bool, []Problem) {
	r := objectReader{of: Object{kind, o.GetNamespace(), o.GetName()}}
	out := Tunnel{Of: r.of, Since: o.GetCreationTimestamp().Time, Peer: keyOf(o), MTU: tunnelMTU(requested, is), Asked: requested}
	if at != nil {
		out.Active = r.parseAddress("status.internalEndpoint.ip", at.IP)
	}
	for i := range replicas {
		if a := r.parseAddress("status.replicas", &replicas[i].IP); a.IsValid() && a != out.Active {
			out.Standby = append(out.Standby, a)
		}
	}
	return out, o.GetDeletionTimestamp() == nil, r.problems
}

// MemberOf converts an InternalNode.
func MemberOf(n *networkingv1beta1.InternalNode) (ClusterNode, []Problem) {
	r := objectReader{of: Object{"InternalNode", "", n.Name}}
	out := ClusterNode{Of: r.of, Since: n.CreationTimestamp.Time}
	if a := r.parseAddress("spec.interface.node.ip", nonEmptyIP(n.Spec.Interface.Node.IP)); a.IsValid() {
		out.External = []netip.Addr{a}
	}
	out.Local = r.parseAddress("status.nodeIP.local", n.Status.NodeIP.Local)
	out.Remote = r.parseAddress("status.nodeIP.remote", n.Status.NodeIP.Remote)
	for _, c := range n.Status.PodCIDRs {
		if p, ok := r.parsePrefix("status.podCIDRs", c); ok {
			out.PodCIDRs = append(out.PodCIDRs, p)
		}
	}
	return out, r.problems
}

// AliasOf converts an IP; it returns false while the IP has no address, or if the IP must not be translated.
func AliasOf(ip *ipamv1alpha1.IP) (TranslatedIP, bool, []Problem) {
	r := objectReader{of: Object{"IP", ip.Namespace, ip.Name}, reason: ReasonUnusableAddress}
	out := TranslatedIP{Of: r.of, Since: ip.CreationTimestamp.Time, Masquerade: ip.Spec.Masquerade != nil && *ip.Spec.Masquerade}
	if ip.Status.IP == "" || ip.DeletionTimestamp != nil || ip.Labels[names.HostUnreachable] == "true" {
		return out, false, nil
	}
	out.Alias = r.parseAddress("status.ip", &ip.Status.IP)
	out.Address = r.parseAddress("spec.ip", &ip.Spec.IP)
	for i := range ip.Status.PreviousIPs[:min(len(ip.Status.PreviousIPs), ipamv1alpha1.MaxPreviousIPs)] {
		if a := r.parseAddress("status.previousIPs", &ip.Status.PreviousIPs[i]); a.IsValid() {
			out.Previous = append(out.Previous, a)
		}
	}
	if ip.Labels[names.IPType] == names.IPTypeEndpoint {
		allowed := strings.SplitN(ip.Annotations[names.AllowedPeers], ",", names.MaxAllowedPeers+1)
		out.Peers = allowed[:min(len(allowed), names.MaxAllowedPeers)]
	}
	return out, out.Alias.IsValid() && out.Address.IsValid(), r.problems
}

// Own returns the networks of this cluster: the Networks in the namespace of the installation.
func Own(networks []ipamv1alpha1.Network, liqoNamespace string) (pods, services, external []netip.Prefix, problems []Problem) {
	for i := range networks {
		n := &networks[i]
		if n.Namespace != liqoNamespace || n.Status.CIDR == "" {
			continue
		}
		into := map[string]*[]netip.Prefix{
			names.NetworkTypePod: &pods, names.NetworkTypeService: &services, names.NetworkTypeExternal: &external,
		}[n.Labels[names.NetworkType]]
		if into == nil {
			continue
		}
		r := objectReader{of: Object{"Network", n.Namespace, n.Name}}
		if p, ok := r.parsePrefix("status.cidr", n.Status.CIDR); ok {
			*into = append(*into, p)
		}
		problems = append(problems, r.problems...)
	}
	return pods, services, external, problems
}

// Held returns the prefixes reserved for networks of peers: a prefix granted to a Configuration is reserved until its Network is deleted.
func Held(networks []ipamv1alpha1.Network) (out []netip.Prefix, problems []Problem) {
	for i := range networks {
		n := &networks[i]
		if n.Labels[names.CIDRType] == "" || n.Status.CIDR == "" {
			continue
		}
		r := objectReader{of: Object{"Network", n.Namespace, n.Name}}
		if p, ok := r.parsePrefix("status.cidr", n.Status.CIDR); ok {
			out = append(out, p)
		}
		problems = append(problems, r.problems...)
	}
	return out, problems
}

// ServiceOf converts a Service with its ready endpoints.
func ServiceOf(s *corev1.Service, behind []discoveryv1.EndpointSlice) Service {
	out := Service{Of: Object{"Service", s.Namespace, s.Name}}
	for _, text := range s.Spec.ClusterIPs {
		if a, err := parseAddress(text); err == nil { // "None" is not an address
			out.ClusterIPs = append(out.ClusterIPs, a)
		}
	}
	for i := range s.Spec.Ports {
		p := &s.Spec.Ports[i]
		number, ok := map[corev1.Protocol]uint8{"": datapath.TCP, corev1.ProtocolTCP: datapath.TCP, corev1.ProtocolUDP: datapath.UDP}[p.Protocol]
		if !ok || p.Port <= 0 || p.Port > maximumPort {
			continue
		}
		port := ServicePort{Protocol: number, Port: uint16(p.Port)}
		for j := range behind {
			port.Endpoints = append(port.Endpoints, readyEndpoints(&behind[j], p.Name)...)
		}
		out.Ports = append(out.Ports, port)
	}
	return out
}

const maximumPort = 65535

// readyEndpoints returns the ready endpoints of a slice for a port.
func readyEndpoints(s *discoveryv1.EndpointSlice, name string) []netip.AddrPort {
	i := slices.IndexFunc(s.Ports, func(p discoveryv1.EndpointPort) bool {
		return p.Name != nil && *p.Name == name || p.Name == nil && name == ""
	})
	if i < 0 || s.Ports[i].Port == nil || *s.Ports[i].Port <= 0 || *s.Ports[i].Port > maximumPort {
		return nil
	}
	var out []netip.AddrPort
	for _, e := range s.Endpoints {
		if e.Conditions.Ready != nil && !*e.Conditions.Ready {
			continue
		}
		for _, text := range e.Addresses {
			if a, err := parseAddress(text); err == nil {
				out = append(out, netip.AddrPortFrom(a, uint16(*s.Ports[i].Port)))
			}
		}
	}
	return out
}

// TakenByNode returns the addresses of a Node as reserved prefixes. A peer's local network must not cover one, because the cluster's own
// packets to the node would go to the peer.
func TakenByNode(n *corev1.Node) []ReservedPrefix {
	var out []ReservedPrefix
	for _, at := range n.Status.Addresses {
		if a, err := parseAddress(at.Address); err == nil {
			out = append(out, ReservedPrefix{hostPrefix(a), "address of Node " + n.Name})
		}
	}
	return out
}

func keyOf(o metav1.Object) PeerKey {
	return PeerKey{o.GetNamespace(), o.GetLabels()[names.RemoteClusterID]}
}

// objectReader reads the fields of one object and collects problems.
type objectReader struct {
	of Object
	// reason is the Reason of the problems, if they are rejections.
	reason   string
	problems []Problem
}

func (r *objectReader) reject(format string, args ...any) {
	r.problems = append(r.problems, Problem{Of: r.of, Reason: r.reason, Message: fmt.Sprintf(format, args...)})
}

func (r *objectReader) parseAddress(field string, ip *networkingv1beta1.IP) netip.Addr {
	if ip == nil {
		return netip.Addr{}
	}
	a, err := parseAddress(string(*ip))
	if err != nil {
		r.reject("%s: %v", field, err)
	}
	return a
}

// nonEmptyIP returns nil for an empty address.
func nonEmptyIP(ip networkingv1beta1.IP) *networkingv1beta1.IP {
	if ip == "" {
		return nil
	}
	return &ip
}

func (r *objectReader) parsePrefix(field string, c networkingv1beta1.CIDR) (netip.Prefix, bool) {
	p, err := prefix.ParsePrefix(string(c))
	if err != nil {
		r.reject("%s: %v", field, err)
	}
	return p, err == nil
}
