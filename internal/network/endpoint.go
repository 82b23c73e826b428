// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package network

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/names"
	"liqo.io/liqo/internal/policy"
)

// endpointOf returns the endpoint of a gateway's Service, or Wait while it is unknown.
func endpointOf(service *corev1.Service, nodes []corev1.Node) (*networkingv1beta1.EndpointStatus, error) {
	ports := service.Spec.Ports
	if len(ports) == 0 {
		return nil, kube.Invalid(reasonInvalidService, fmt.Errorf("the Service %s has no port", service.Name))
	}
	out := &networkingv1beta1.EndpointStatus{Protocol: new(ports[0].Protocol)}
	number := func(p corev1.ServicePort) int32 { return p.Port }
	switch service.Spec.Type {
	case corev1.ServiceTypeClusterIP:
		out.Addresses = slices.DeleteFunc(slices.Clone(service.Spec.ClusterIPs), func(ip string) bool { return ip == "" || ip == corev1.ClusterIPNone })
	case corev1.ServiceTypeNodePort:
		out.Addresses = nodeAddresses(nodes)
		number = func(p corev1.ServicePort) int32 { return p.NodePort }
	case corev1.ServiceTypeLoadBalancer:
		out.Addresses = balancerAddresses(service.Status.LoadBalancer.Ingress)
	default:
		return nil, kube.Invalid(reasonInvalidService, fmt.Errorf("a gateway cannot be reached by a Service of type %s: ClusterIP, NodePort and LoadBalancer are possible", service.Spec.Type))
	}
	var numbers []int32
	for _, p := range ports {
		if n := number(p); n != 0 {
			numbers = append(numbers, n)
		}
	}
	if len(out.Addresses) == 0 || len(numbers) != len(ports) {
		return nil, kube.Wait(0, fmt.Sprintf("the Service %s, of type %s, has no address yet", service.Name, service.Spec.Type))
	}
	if len(numbers) == 1 {
		out.Port = numbers[0]
	} else {
		out.Ports = numbers
	}
	return out, nil
}

// firstNodePort returns the only node port that most templates can use.
func firstNodePort(e networkingv1beta1.Endpoint) *int32 {
	if e.NodePort == nil && len(e.NodePorts) > 0 {
		return &e.NodePorts[0]
	}
	return e.NodePort
}

// checkPorts returns an error if several ports are requested and the template's Service would not serve one of them. The templates of the chart have
// one port; templates of users may have more.
func checkPorts(requested networkingv1beta1.Endpoint, service corev1.ServiceSpec) error {
	missing := func(what string, numbers []int32, of func(corev1.ServicePort) int32) error {
		for _, n := range numbers {
			if len(numbers) > 1 && !slices.ContainsFunc(service.Ports, func(p corev1.ServicePort) bool { return of(p) == n }) {
				return kube.Invalid(reasonInvalidService, fmt.Errorf(
					"spec.endpoint.%s has %d, which the Service of the template does not serve: leave one in the list, or name a template whose Service has each of them", what, n))
			}
		}
		return nil
	}
	if err := missing("ports", requested.Ports, func(p corev1.ServicePort) int32 { return p.Port }); err != nil {
		return err
	}
	return missing("nodePorts", requested.NodePorts, func(p corev1.ServicePort) int32 { return p.NodePort })
}

// checkServed applies checkPorts to an object rendered for a GatewayServer.
func checkServed(gw *gateway, rendered client.Object) error {
	server, is := gw.spec.(*networkingv1beta1.GatewayServerSpec)
	wireguard, owned := rendered.(*networkingv1beta1.WgGatewayServer)
	if !is || !owned {
		return nil
	}
	return checkPorts(server.Endpoint, wireguard.Spec.Service.Spec)
}

// balancerAddresses returns the addresses of a load balancer, in its order.
func balancerAddresses(ingress []corev1.LoadBalancerIngress) []string {
	var out []string
	for _, i := range ingress {
		for _, address := range []string{i.IP, i.Hostname} {
			if address != "" && !slices.Contains(out, address) {
				out = append(out, address)
			}
		}
	}
	return out
}

// nodeAddresses returns one address of every ready node, sorted by the names of nodes: the order is independent of the gateway's node, so that a move
// of the gateway changes nothing for peers.
func nodeAddresses(nodes []corev1.Node) []string {
	nodes = slices.Clone(nodes)
	slices.SortFunc(nodes, func(a, b corev1.Node) int { return cmp.Compare(a.Name, b.Name) })
	var out []string
	for i := range nodes {
		if !isServing(&nodes[i]) {
			continue
		}
		if address := outerAddress(nodes[i].Status.Addresses); address != "" && !slices.Contains(out, address) {
			out = append(out, address)
		}
	}
	return out
}

// isServing reports whether a node serves node ports: a virtual node does not.
func isServing(node *corev1.Node) bool {
	return node.Labels[names.NodeType] != names.NodeTypeVirtualNode && node.DeletionTimestamp.IsZero() && kube.NodeReady(node)
}

// outerAddress returns the address by which a peer most likely reaches a node.
func outerAddress(addresses []corev1.NodeAddress) string {
	for _, preferred := range []corev1.NodeAddressType{
		corev1.NodeExternalDNS, corev1.NodeExternalIP, corev1.NodeInternalDNS, corev1.NodeInternalIP, corev1.NodeHostName,
	} {
		for _, a := range addresses {
			if a.Type == preferred && a.Address != "" {
				return a.Address
			}
		}
	}
	return ""
}

// innerEndpoint returns where nodes reach the active replica, or nil. During a failover two replicas may carry the label: the
// current one is kept.
func innerEndpoint(pods []corev1.Pod, now *networkingv1beta1.InternalGatewayEndpoint) *networkingv1beta1.InternalGatewayEndpoint {
	pods = slices.DeleteFunc(slices.Clone(pods), func(p corev1.Pod) bool {
		_, err := netip.ParseAddr(p.Status.PodIP)
		return err != nil || p.Labels[names.GatewayActive] != "true" || p.Status.Phase != corev1.PodRunning || !p.DeletionTimestamp.IsZero()
	})
	if len(pods) == 0 {
		return nil
	}
	slices.SortFunc(pods, func(a, b corev1.Pod) int { return cmp.Compare(a.Name, b.Name) })
	chosen := &pods[0]
	for i := range pods {
		if now != nil && now.IP != nil && pods[i].Status.PodIP == now.IP.String() {
			chosen = &pods[i]
		}
	}
	return &networkingv1beta1.InternalGatewayEndpoint{
		IP: new(networkingv1beta1.IP(chosen.Status.PodIP)), Node: new(chosen.Spec.NodeName),
	}
}

// isReached reports whether a running pod has the address at which nodes reach a gateway.
func isReached(pods []corev1.Pod, at *networkingv1beta1.InternalGatewayEndpoint) bool {
	return at != nil && at.IP != nil && slices.ContainsFunc(pods, func(p corev1.Pod) bool { return p.Status.PodIP == at.IP.String() })
}

// dialledEndpoint returns the server's endpoint for a template: set by the user, else reported by the peer, which third-party gateways do not
// validate.
func dialledEndpoint(spec networkingv1beta1.EndpointStatus, reported *networkingv1beta1.EndpointStatus) networkingv1beta1.EndpointStatus {
	if len(spec.Addresses) > 0 {
		return spec
	}
	if believed := policy.PeerEndpoint(reported); believed != nil {
		return *believed
	}
	return spec
}

// isFollowing reports whether a template renders a gateway that watches the peer's reported endpoint itself. As an argument each change would cost a
// new pod, so the endpoint at the creation is kept. Third-party kinds get each change.
func (g *gateway) isFollowing(kind schema.GroupVersionKind) bool {
	return g.reported && kind == kindOf(&networkingv1beta1.WgGatewayClient{})
}

// firstTold returns the endpoint that the peer reported at the creation of the gateway, or nil before the
// creation.
func firstTold(created []client.Object) *networkingv1beta1.EndpointStatus {
	for _, obj := range created {
		var out networkingv1beta1.EndpointStatus
		if err := json.Unmarshal([]byte(obj.GetAnnotations()[names.GatewayTold]), &out); err == nil && len(out.Addresses) > 0 {
			return &out
		}
	}
	return nil
}

// keepTold records the peer's reported endpoint on the rendered object.
func keepTold(rendered client.Object, e networkingv1beta1.EndpointStatus) error {
	text, err := json.Marshal(e)
	if err != nil {
		return fmt.Errorf("recording the endpoint of the peer: %w", err)
	}
	rendered.SetAnnotations(mergeMaps(rendered.GetAnnotations(), map[string]string{names.GatewayTold: string(text)}))
	return nil
}
