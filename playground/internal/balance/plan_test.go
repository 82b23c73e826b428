// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package balance

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"liqo.io/liqo/playground/internal/spec"
)

type option func(*corev1.Service)

func service(name string, options ...option) *corev1.Service {
	svc := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "x", Name: name},
		Spec:       corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer, IPFamilies: []corev1.IPFamily{corev1.IPv4Protocol}},
	}
	for _, o := range options {
		o(svc)
	}
	return svc
}

func has(ips ...string) option {
	return func(s *corev1.Service) {
		for _, ip := range ips {
			s.Status.LoadBalancer.Ingress = append(s.Status.LoadBalancer.Ingress, corev1.LoadBalancerIngress{IP: ip})
		}
	}
}

func asks(ip string) option { return func(s *corev1.Service) { s.Spec.LoadBalancerIP = ip } }
func dual(s *corev1.Service) {
	s.Spec.IPFamilies = []corev1.IPFamily{corev1.IPv4Protocol, corev1.IPv6Protocol}
}
func local(s *corev1.Service) {
	s.Spec.ExternalTrafficPolicy = corev1.ServiceExternalTrafficPolicyLocal
}
func inside(s *corev1.Service)  { s.Spec.Type = corev1.ServiceTypeClusterIP }
func foreign(s *corev1.Service) { s.Spec.LoadBalancerClass = new("other") }

func nodes(states string) []*corev1.Node {
	var all []*corev1.Node
	for i, state := range strings.Fields(states) {
		status := corev1.ConditionFalse
		if state == "ready" {
			status = corev1.ConditionTrue
		}
		all = append(all, &corev1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("a%d", i+1)},
			Status:     corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: status}}},
		})
	}
	return all
}

func endpoint(svc, node string) *discoveryv1.EndpointSlice {
	return &discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{Namespace: "x", Labels: map[string]string{discoveryv1.LabelServiceName: svc}},
		Endpoints:  []discoveryv1.Endpoint{{NodeName: &node, Conditions: discoveryv1.EndpointConditions{Ready: new(true)}}},
	}
}

func TestDecide(t *testing.T) {
	for name, c := range map[string]struct {
		services []*corev1.Service
		nodes    string
		slices   []*discoveryv1.EndpointSlice
		want     string
	}{
		"every service has its own address": {
			services: []*corev1.Service{service("one"), service("two")}, nodes: "ready ready",
			want: "x/one 172.29.1.100@a1; x/two 172.29.1.101@a1",
		},
		"a service keeps its address before a newcomer chooses": {
			services: []*corev1.Service{service("new"), service("old", has("172.29.1.100"))}, nodes: "ready ready",
			want: "x/new 172.29.1.101@a1; x/old 172.29.1.100@a1",
		},
		"two services never share": {
			services: []*corev1.Service{service("one", has("172.29.1.100")), service("two", has("172.29.1.100"))}, nodes: "ready",
			want: "x/one 172.29.1.100@a1; x/two 172.29.1.101@a1",
		},
		"an address of another network is replaced": {
			services: []*corev1.Service{service("one", has("192.0.2.7"))}, nodes: "ready",
			want: "x/one 172.29.1.100@a1",
		},
		"the address that is asked for": {
			services: []*corev1.Service{service("one", asks("172.29.1.200"))}, nodes: "ready",
			want: "x/one 172.29.1.200@a1",
		},
		"a taken address is not given again": {
			services: []*corev1.Service{service("one", has("172.29.1.200")), service("two", asks("172.29.1.200"))}, nodes: "ready",
			want: "x/one 172.29.1.200@a1; x/two 172.29.1.100@a1",
		},
		"one address per family": {
			services: []*corev1.Service{service("one", dual)}, nodes: "ready",
			want: "x/one 172.29.1.100@a1 fd00:ac1d::1:100@a1",
		},
		"another node answers when the first is not ready": {
			services: []*corev1.Service{service("one")}, nodes: "down ready",
			want: "x/one 172.29.1.100@a2",
		},
		"nobody answers when no node is ready": {
			services: []*corev1.Service{service("one")}, nodes: "down down",
			want: "x/one 172.29.1.100@",
		},
		"local traffic goes where an endpoint is": {
			services: []*corev1.Service{service("one", local)}, nodes: "ready ready",
			slices: []*discoveryv1.EndpointSlice{endpoint("other", "a1"), endpoint("one", "a2")},
			want:   "x/one 172.29.1.100@a2",
		},
		"a service that is no load balancer any more loses its address": {
			services: []*corev1.Service{service("one", inside, has("172.29.1.100")), service("two", inside)}, nodes: "ready",
			want: "x/one",
		},
		"a class of somebody else is left alone": {
			services: []*corev1.Service{service("one", foreign)}, nodes: "ready",
			want: "",
		},
	} {
		t.Run(name, func(t *testing.T) {
			w, err := spec.NewWorld("liqo-pg", "172.29.0.0/16")
			if err != nil {
				t.Fatal(err)
			}
			cluster := spec.Default("a", w)
			cluster.Workers = 2
			plan := Decide(State{Cluster: cluster, Services: c.services, Nodes: nodes(c.nodes), Slices: c.slices})
			if diff := cmp.Diff(c.want, show(plan)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func show(p Plan) string {
	var lines []string
	for svc, addrs := range p.Addresses {
		line := svc
		for _, a := range addrs {
			line += fmt.Sprintf(" %s@%s", a, p.Owners[a])
		}
		lines = append(lines, line)
	}
	slices.Sort(lines)
	return strings.Join(lines, "; ")
}
