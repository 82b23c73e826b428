// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package translate

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"liqo.io/liqo/internal/names"
)

// localService has every field that a cluster gives to a Service, or a user may.
func localService() *corev1.Service {
	return &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: "shop", Labels: map[string]string{"app": "web"}},
		Spec: corev1.ServiceSpec{
			Type: corev1.ServiceTypeLoadBalancer, Selector: map[string]string{"app": "web"},
			ClusterIP: "10.96.0.7", ClusterIPs: []string{"10.96.0.7"}, ExternalIPs: []string{"192.0.2.1"},
			LoadBalancerIP: "192.0.2.2", LoadBalancerClass: new("ours"), HealthCheckNodePort: 31000,
			IPFamilies: []corev1.IPFamily{corev1.IPv4Protocol}, IPFamilyPolicy: new(corev1.IPFamilyPolicyPreferDualStack),
			Ports: []corev1.ServicePort{{
				Name: "http", Protocol: corev1.ProtocolTCP, AppProtocol: new("http"), Port: 80, TargetPort: intstr.FromString("web"), NodePort: 30080,
			}},
			ExternalTrafficPolicy: corev1.ServiceExternalTrafficPolicyLocal, InternalTrafficPolicy: new(corev1.ServiceInternalTrafficPolicyCluster),
			LoadBalancerSourceRanges: []string{"198.51.100.0/24"}, AllocateLoadBalancerNodePorts: new(true), PublishNotReadyAddresses: true,
			SessionAffinity:       corev1.ServiceAffinityClientIP,
			SessionAffinityConfig: &corev1.SessionAffinityConfig{ClientIP: &corev1.ClientIPConfig{TimeoutSeconds: new(int32(60))}},
			TrafficDistribution:   new(corev1.ServiceTrafficDistributionPreferClose),
		},
		Status: corev1.ServiceStatus{LoadBalancer: corev1.LoadBalancerStatus{Ingress: []corev1.LoadBalancerIngress{{IP: "192.0.2.2"}}}},
	}
}

var milan = Target{Origin: "rome", Destination: "milan", Node: "milan", Namespace: "shop-rome"}

func TestServiceKeepsWhatMeansTheSame(t *testing.T) {
	want := localService().Spec
	want.ClusterIP, want.ClusterIPs, want.ExternalIPs, want.LoadBalancerIP = "", nil, nil, ""
	want.LoadBalancerClass, want.HealthCheckNodePort, want.IPFamilies, want.TrafficDistribution = nil, 0, nil, nil
	want.Ports[0].NodePort = 0
	got := milan.Service(localService(), "")
	if diff := cmp.Diff(want, got.Spec); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if got.Namespace != "shop-rome" || got.Labels[names.OffloadingOrigin] != "rome" || len(got.Status.LoadBalancer.Ingress) != 0 {
		t.Errorf("metadata %+v, status %+v", got.ObjectMeta, got.Status)
	}
}

func TestServiceRules(t *testing.T) {
	for rule, test := range map[string]struct {
		edit  func(*corev1.Service)
		class string
		look  func(*corev1.Service) any
		want  any
	}{
		"headless stays headless": {
			edit: func(s *corev1.Service) {
				s.Spec.Type, s.Spec.ClusterIP, s.Spec.ClusterIPs = corev1.ServiceTypeClusterIP, "None", []string{"None"}
			},
			look: func(s *corev1.Service) any { return s.Spec.ClusterIP }, want: "None",
		},
		"node ports are the same on request": {
			edit: func(s *corev1.Service) { s.Annotations = map[string]string{names.ForceRemoteNodePort: "true"} },
			look: func(s *corev1.Service) any { return s.Spec.Ports[0].NodePort }, want: int32(30080),
		},
		"and not if the request says false": {
			edit: func(s *corev1.Service) { s.Annotations = map[string]string{names.ForceRemoteNodePort: "False"} },
			look: func(s *corev1.Service) any { return s.Spec.Ports[0].NodePort }, want: int32(0),
		},
		"a load balancer gets the class of the provider": {
			edit: func(*corev1.Service) {}, class: "theirs",
			look: func(s *corev1.Service) any { return *s.Spec.LoadBalancerClass }, want: "theirs",
		},
		"others get no class": {
			edit: func(s *corev1.Service) { s.Spec.Type = corev1.ServiceTypeNodePort }, class: "theirs",
			look: func(s *corev1.Service) any { return s.Spec.LoadBalancerClass == nil }, want: true,
		},
		"what is about external addresses goes with them": {
			edit: func(s *corev1.Service) { s.Spec.Type = corev1.ServiceTypeClusterIP },
			look: func(s *corev1.Service) any { return s.Spec.ExternalTrafficPolicy }, want: corev1.ServiceExternalTrafficPolicy(""),
		},
		"a name elsewhere is told": {
			edit: func(s *corev1.Service) {
				s.Spec = corev1.ServiceSpec{Type: corev1.ServiceTypeExternalName, ExternalName: "db.example.com"}
			},
			look: func(s *corev1.Service) any { return s.Spec },
			want: corev1.ServiceSpec{Type: corev1.ServiceTypeExternalName, ExternalName: "db.example.com"},
		},
	} {
		t.Run(rule, func(t *testing.T) {
			local := localService()
			test.edit(local)
			if diff := cmp.Diff(test.want, test.look(milan.Service(local, test.class))); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

func TestExternalName(t *testing.T) {
	remote := func(namespace string) (string, bool) {
		remoteNamespace, ok := map[string]string{"databases": "databases-rome", "svc": "svc-rome"}[namespace]
		return remoteNamespace, ok
	}
	for name, want := range map[string]string{
		"db.databases.svc.cluster.local":      "db.databases-rome.svc.cluster.local",
		"db.databases.svc.cluster.local.":     "db.databases-rome.svc.cluster.local.",
		"db.databases.svc":                    "db.databases-rome.svc",
		"db.databases.svc.":                   "db.databases-rome.svc.",
		"db-0.db.databases.svc.cluster.local": "db-0.db.databases-rome.svc.cluster.local",
		"db.other.svc.cluster.local":          "db.other.svc.cluster.local",
		"databases.other.svc.cluster.local":   "databases.other.svc.cluster.local",
		"db.databases.svc.example.com":        "db.databases.svc.example.com",
		"db.databases.example.com":            "db.databases.example.com",
		"db.databases":                        "db.databases",
		"a.b.c.databases.svc.cluster.local":   "a.b.c.databases.svc.cluster.local",
		"svc.databases.svc":                   "svc.databases.svc", // the first svc counts: no namespace is guessed
		"":                                    "",
	} {
		t.Run(name, func(t *testing.T) {
			if got := ExternalName(name, remote); got != want {
				t.Errorf("got %q, want %q", got, want)
			}
		})
	}
}
