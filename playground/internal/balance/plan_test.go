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

func newService(name string, options ...option) *corev1.Service {
	svc := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "x", Name: name},
		Spec:       corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer, IPFamilies: []corev1.IPFamily{corev1.IPv4Protocol}},
	}
	for _, o := range options {
		o(svc)
	}
	return svc
}

func withAddresses(ips ...string) option {
	return func(s *corev1.Service) {
		for _, ip := range ips {
			s.Status.LoadBalancer.Ingress = append(s.Status.LoadBalancer.Ingress, corev1.LoadBalancerIngress{IP: ip})
		}
	}
}

func withRequestedIP(ip string) option { return func(s *corev1.Service) { s.Spec.LoadBalancerIP = ip } }
func dualStack(s *corev1.Service) {
	s.Spec.IPFamilies = []corev1.IPFamily{corev1.IPv4Protocol, corev1.IPv6Protocol}
}
func localTraffic(s *corev1.Service) {
	s.Spec.ExternalTrafficPolicy = corev1.ServiceExternalTrafficPolicyLocal
}
func clusterIP(s *corev1.Service)  { s.Spec.Type = corev1.ServiceTypeClusterIP }
func otherClass(s *corev1.Service) { s.Spec.LoadBalancerClass = new("other") }

func newNodes(states string) []*corev1.Node {
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

func newEndpointSlice(svc, node string) *discoveryv1.EndpointSlice {
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
		"one address per service": {
			services: []*corev1.Service{newService("one"), newService("two")}, nodes: "ready ready",
			want: "x/one 172.29.1.100@a1; x/two 172.29.1.101@a1",
		},
		"existing address is kept": {
			services: []*corev1.Service{newService("new"), newService("old", withAddresses("172.29.1.100"))}, nodes: "ready ready",
			want: "x/new 172.29.1.101@a1; x/old 172.29.1.100@a1",
		},
		"duplicate address is replaced": {
			services: []*corev1.Service{newService("one", withAddresses("172.29.1.100")), newService("two", withAddresses("172.29.1.100"))}, nodes: "ready",
			want: "x/one 172.29.1.100@a1; x/two 172.29.1.101@a1",
		},
		"foreign address is replaced": {
			services: []*corev1.Service{newService("one", withAddresses("192.0.2.7"))}, nodes: "ready",
			want: "x/one 172.29.1.100@a1",
		},
		"requested address": {
			services: []*corev1.Service{newService("one", withRequestedIP("172.29.1.200"))}, nodes: "ready",
			want: "x/one 172.29.1.200@a1",
		},
		"requested address is in use": {
			services: []*corev1.Service{newService("one", withAddresses("172.29.1.200")), newService("two", withRequestedIP("172.29.1.200"))}, nodes: "ready",
			want: "x/one 172.29.1.200@a1; x/two 172.29.1.100@a1",
		},
		"one address per family": {
			services: []*corev1.Service{newService("one", dualStack)}, nodes: "ready",
			want: "x/one 172.29.1.100@a1 fd00:ac1d::1:100@a1",
		},
		"first node is not ready": {
			services: []*corev1.Service{newService("one")}, nodes: "down ready",
			want: "x/one 172.29.1.100@a2",
		},
		"no node is ready": {
			services: []*corev1.Service{newService("one")}, nodes: "down down",
			want: "x/one 172.29.1.100@",
		},
		"local traffic policy": {
			services: []*corev1.Service{newService("one", localTraffic)}, nodes: "ready ready",
			slices: []*discoveryv1.EndpointSlice{newEndpointSlice("other", "a1"), newEndpointSlice("one", "a2")},
			want:   "x/one 172.29.1.100@a2",
		},
		"type changed to ClusterIP": {
			services: []*corev1.Service{newService("one", clusterIP, withAddresses("172.29.1.100")), newService("two", clusterIP)}, nodes: "ready",
			want: "x/one",
		},
		"other load balancer class": {
			services: []*corev1.Service{newService("one", otherClass)}, nodes: "ready",
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
			plan := Decide(State{Cluster: cluster, Services: c.services, Nodes: newNodes(c.nodes), Slices: c.slices})
			if diff := cmp.Diff(c.want, formatPlan(plan)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func formatPlan(p Plan) string {
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
