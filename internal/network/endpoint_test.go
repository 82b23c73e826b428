// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package network

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/names"
)

func node(name string, ready corev1.ConditionStatus, addresses ...corev1.NodeAddress) corev1.Node {
	return corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Status:     corev1.NodeStatus{Addresses: addresses, Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: ready}}},
	}
}

func TestServerAddresses(t *testing.T) {
	virtual := node("virtual", corev1.ConditionTrue, corev1.NodeAddress{Type: corev1.NodeInternalIP, Address: "192.0.2.99"})
	virtual.Labels = map[string]string{names.NodeType: names.NodeTypeVirtualNode}
	nodes := []corev1.Node{
		node("c", corev1.ConditionTrue, corev1.NodeAddress{Type: corev1.NodeHostName, Address: "c"}),
		node("b", corev1.ConditionTrue, corev1.NodeAddress{Type: corev1.NodeInternalIP, Address: "192.0.2.2"}, corev1.NodeAddress{Type: corev1.NodeExternalIP, Address: "203.0.113.2"}),
		node("a", corev1.ConditionTrue, corev1.NodeAddress{Type: corev1.NodeExternalDNS, Address: ""}, corev1.NodeAddress{Type: corev1.NodeInternalIP, Address: "192.0.2.1"}),
		node("lost", corev1.ConditionUnknown, corev1.NodeAddress{Type: corev1.NodeInternalIP, Address: "192.0.2.9"}),
		node("bare", corev1.ConditionTrue),
		virtual,
	}
	udp, one, two := corev1.ProtocolUDP, []corev1.ServicePort{{Port: 51840, NodePort: 30742, Protocol: corev1.ProtocolUDP}},
		[]corev1.ServicePort{{Port: 7, NodePort: 30007, Protocol: corev1.ProtocolUDP}, {Port: 8, NodePort: 30008, Protocol: corev1.ProtocolUDP}}
	for name, tc := range map[string]struct {
		spec    corev1.ServiceSpec
		ingress []corev1.LoadBalancerIngress
		nodes   []corev1.Node
		want    *networkingv1beta1.EndpointStatus
		invalid bool
	}{
		"by the address of the Service": {
			spec: corev1.ServiceSpec{Type: corev1.ServiceTypeClusterIP, ClusterIPs: []string{"10.96.0.7", "fd00::7"}, Ports: one},
			want: &networkingv1beta1.EndpointStatus{Addresses: []string{"10.96.0.7", "fd00::7"}, Port: 51840, Protocol: &udp},
		},
		"by no address of a headless one": {spec: corev1.ServiceSpec{Type: corev1.ServiceTypeClusterIP, ClusterIPs: []string{corev1.ClusterIPNone}, Ports: one}},
		"best address of each ready node": {
			spec: corev1.ServiceSpec{Type: corev1.ServiceTypeNodePort, Ports: one}, nodes: nodes,
			want: &networkingv1beta1.EndpointStatus{Addresses: []string{"192.0.2.1", "203.0.113.2", "c"}, Port: 30742, Protocol: &udp},
		},
		"by several ports": {
			spec: corev1.ServiceSpec{Type: corev1.ServiceTypeNodePort, Ports: two}, nodes: nodes[:1],
			want: &networkingv1beta1.EndpointStatus{Addresses: []string{"c"}, Ports: []int32{30007, 30008}, Protocol: &udp},
		},
		"by no node while none is ready":    {spec: corev1.ServiceSpec{Type: corev1.ServiceTypeNodePort, Ports: one}, nodes: nodes[3:]},
		"by no port while none is assigned": {spec: corev1.ServiceSpec{Type: corev1.ServiceTypeNodePort, Ports: []corev1.ServicePort{{Port: 7}}}, nodes: nodes},
		"by all that a load balancer says": {
			spec:    corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer, Ports: one},
			ingress: []corev1.LoadBalancerIngress{{IP: "203.0.113.1", Hostname: "lb.example"}, {Hostname: "lb.example"}, {IP: "203.0.113.2"}},
			want:    &networkingv1beta1.EndpointStatus{Addresses: []string{"203.0.113.1", "lb.example", "203.0.113.2"}, Port: 51840, Protocol: &udp},
		},
		"by a load balancer that has nothing yet": {spec: corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer, Ports: one}},
		"by a name":      {spec: corev1.ServiceSpec{Type: corev1.ServiceTypeExternalName, Ports: one}, invalid: true},
		"without a port": {spec: corev1.ServiceSpec{Type: corev1.ServiceTypeClusterIP}, invalid: true},
	} {
		got, err := endpointOf(&corev1.Service{Spec: tc.spec, Status: corev1.ServiceStatus{LoadBalancer: corev1.LoadBalancerStatus{Ingress: tc.ingress}}}, tc.nodes)
		if diff := cmp.Diff(tc.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
		if _, invalid := kube.InvalidReason(err); invalid != tc.invalid || (err == nil) != (tc.want != nil) {
			t.Errorf("%s: error %v", name, err)
		}
	}
}

// A template may serve several ports, and those of the chart serve one. What would be left out without a word is refused.
func TestServerPorts(t *testing.T) {
	serves := func(ports ...int32) corev1.ServiceSpec {
		var out corev1.ServiceSpec
		for _, p := range ports {
			out.Ports = append(out.Ports, corev1.ServicePort{Port: p, NodePort: 30000 + p})
		}
		return out
	}
	for name, tc := range map[string]struct {
		asked    networkingv1beta1.Endpoint
		service  corev1.ServiceSpec
		nodePort int32
		problem  string
	}{
		"one":                          {asked: networkingv1beta1.Endpoint{Port: 7, NodePort: new(int32(30007))}, service: serves(7), nodePort: 30007},
		"one, as a list":               {asked: networkingv1beta1.Endpoint{Ports: []int32{7}, NodePorts: []int32{30007}}, service: serves(7), nodePort: 30007},
		"one, that the template knows": {asked: networkingv1beta1.Endpoint{Ports: []int32{7}}, service: serves(9)},
		"several, all of them":         {asked: networkingv1beta1.Endpoint{Ports: []int32{7, 8}, NodePorts: []int32{30007, 30008}}, service: serves(8, 7), nodePort: 30007},
		"several, the first of them":   {asked: networkingv1beta1.Endpoint{Ports: []int32{7, 8}}, service: serves(7), problem: "spec.endpoint.ports has 8"},
		"several node ports":           {asked: networkingv1beta1.Endpoint{Port: 7, NodePorts: []int32{30007, 30008}}, service: serves(7), nodePort: 30007, problem: "spec.endpoint.nodePorts has 30008"},
	} {
		first := firstNodePort(tc.asked)
		if (first != nil) != (tc.nodePort != 0) || first != nil && *first != tc.nodePort {
			t.Errorf("%s: the node port is not %d", name, tc.nodePort)
		}
		err := checkPorts(tc.asked, tc.service)
		if reason, invalid := kube.InvalidReason(err); (err != nil) != (tc.problem != "") || err != nil && (!invalid || reason != reasonInvalidService || !strings.Contains(err.Error(), tc.problem)) {
			t.Errorf("%s: %v, want %q", name, err, tc.problem)
		}
	}
}

func replica(name, ip string, edit func(*corev1.Pod)) corev1.Pod {
	out := corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{names.GatewayActive: "true"}},
		Spec:       corev1.PodSpec{NodeName: "node-" + name},
		Status:     corev1.PodStatus{Phase: corev1.PodRunning, PodIP: ip},
	}
	if edit != nil {
		edit(&out)
	}
	return out
}

func TestGatewayAddresses(t *testing.T) {
	at := func(ip string) *networkingv1beta1.InternalGatewayEndpoint {
		return &networkingv1beta1.InternalGatewayEndpoint{IP: new(networkingv1beta1.IP(ip))}
	}
	for name, tc := range map[string]struct {
		pods []corev1.Pod
		now  *networkingv1beta1.InternalGatewayEndpoint
		want string
	}{
		"the active one": {pods: []corev1.Pod{
			replica("a", "10.0.0.1", func(p *corev1.Pod) { p.Labels = nil }), replica("b", "10.0.0.2", nil),
		}, want: "10.0.0.2 node-b"},
		"none that is being deleted": {pods: []corev1.Pod{replica("a", "10.0.0.1", func(p *corev1.Pod) { p.DeletionTimestamp = new(metav1.Now()) })}, now: at("10.0.0.1")},
		"none that does not run":     {pods: []corev1.Pod{replica("a", "10.0.0.1", func(p *corev1.Pod) { p.Status.Phase = corev1.PodPending })}},
		"none without address":       {pods: []corev1.Pod{replica("a", "", nil)}},
		"the one in use of two":      {pods: []corev1.Pod{replica("a", "10.0.0.1", nil), replica("b", "fd00::2", nil)}, now: at("fd00::2"), want: "fd00::2 node-b"},
		"one of two new ones":        {pods: []corev1.Pod{replica("b", "10.0.0.2", nil), replica("a", "10.0.0.1", nil)}, now: at("10.0.0.9"), want: "10.0.0.1 node-a"},
		"none":                       {now: at("10.0.0.1")},
	} {
		got := ""
		if e := innerEndpoint(tc.pods, tc.now); e != nil {
			got = e.IP.String() + " " + *e.Node
		}
		if got != tc.want {
			t.Errorf("%s: %q, want %q", name, got, tc.want)
		}
	}
}

func TestDialledEndpoint(t *testing.T) {
	type endpoint = networkingv1beta1.EndpointStatus
	for name, tc := range map[string]struct {
		spec     endpoint
		reported *endpoint
		want     endpoint
	}{
		"what its user says":        {spec: endpoint{Addresses: []string{"a"}, Port: 1}, want: endpoint{Addresses: []string{"a"}, Port: 1}},
		"and nothing of the peer's": {spec: endpoint{Addresses: []string{"a"}, Port: 1}, reported: &endpoint{Addresses: []string{"b", "a"}, Port: 2}, want: endpoint{Addresses: []string{"a"}, Port: 1}},
		"the peer alone":            {reported: &endpoint{Addresses: []string{"b"}, Ports: []int32{2, 3}}, want: endpoint{Addresses: []string{"b"}, Ports: []int32{2, 3}}},
		"what it cannot mean":       {reported: &endpoint{Addresses: []string{"169.254.169.254", "--mode=server", "b"}, Port: 2}, want: endpoint{Addresses: []string{"b"}, Port: 2}},
		"nothing that it can":       {reported: &endpoint{Addresses: []string{"127.0.0.1"}, Port: 2}},
		"nobody":                    {},
	} {
		if diff := cmp.Diff(tc.want, dialledEndpoint(tc.spec, tc.reported)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// Nobody else would tell gateways of other kinds, and what the user says always counts.
func TestReportedEndpointKinds(t *testing.T) {
	ours, others := networkingv1beta1.GroupVersion.WithKind("WgGatewayClient"), schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Tube"}
	reported, spec := &networkingv1beta1.GatewayClient{}, &networkingv1beta1.GatewayClient{}
	reported.Status.Endpoint = &networkingv1beta1.EndpointStatus{Addresses: []string{"a"}, Port: 1}
	spec.Spec.Endpoint, spec.Status.Endpoint = *reported.Status.Endpoint, reported.Status.Endpoint
	if !gatewayOf(reported).isFollowing(ours) || gatewayOf(reported).isFollowing(others) || gatewayOf(spec).isFollowing(ours) {
		t.Error("the wrong ones follow")
	}
	created := &networkingv1beta1.WgGatewayClient{}
	if first := firstTold([]client.Object{created}); first != nil {
		t.Errorf("it was reported %+v by nobody", first)
	}
	if err := keepTold(created, *reported.Status.Endpoint); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(reported.Status.Endpoint, firstTold([]client.Object{created})); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
