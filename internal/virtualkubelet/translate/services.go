// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package translate

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"liqo.io/liqo/internal/names"
)

// Service returns the remote copy of a Service. Fields allocated by a cluster stay in the cluster: addresses, families, node
// ports, the health check port. class is a load balancer class of the provider; empty leaves the choice to the provider.
func (t Target) Service(local *corev1.Service, class string) *corev1.Service {
	from := local.Spec.DeepCopy()
	out := &corev1.Service{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Service"},
		ObjectMeta: t.objectMeta(local.Name, local),
		Spec: corev1.ServiceSpec{
			Type:                          from.Type,
			Selector:                      from.Selector,
			Ports:                         from.Ports,
			ExternalName:                  from.ExternalName,
			AllocateLoadBalancerNodePorts: from.AllocateLoadBalancerNodePorts,
			ExternalTrafficPolicy:         from.ExternalTrafficPolicy,
			InternalTrafficPolicy:         from.InternalTrafficPolicy,
			IPFamilyPolicy:                from.IPFamilyPolicy,
			LoadBalancerSourceRanges:      from.LoadBalancerSourceRanges,
			PublishNotReadyAddresses:      from.PublishNotReadyAddresses,
			SessionAffinity:               from.SessionAffinity,
			SessionAffinityConfig:         from.SessionAffinityConfig,
		},
	}
	if from.Type == corev1.ServiceTypeClusterIP {
		out.Spec.ExternalTrafficPolicy = "" // only for external addresses, and these are not reflected
	}
	if IsHeadless(local) {
		out.Spec.ClusterIP = corev1.ClusterIPNone
	}
	if !isSet(local, names.ForceRemoteNodePort) {
		for i := range out.Spec.Ports {
			out.Spec.Ports[i].NodePort = 0
		}
	}
	if class != "" && from.Type == corev1.ServiceTypeLoadBalancer {
		out.Spec.LoadBalancerClass = &class
	}
	return out
}

// ExternalName translates the external name of a local Service for the provider: a name of a Service in an offloaded namespace,
// or of a pod behind the Service, gets the remote namespace in place of the local one. Other names stay unchanged.
func ExternalName(name string, remote func(namespace string) (string, bool)) string {
	labels := strings.Split(name, ".")
	at := slices.Index(labels, "svc")
	if at != 2 && at != 3 { // <service>.<namespace>.svc, <pod>.<service>.<namespace>.svc
		return name
	}
	switch rest := strings.TrimSuffix(strings.Join(labels[at+1:], "."), "."); rest {
	case "", clusterDomain:
	default:
		return name
	}
	remoteNamespace, ok := remote(labels[at-1])
	if !ok {
		return name
	}
	labels[at-1] = remoteNamespace
	return strings.Join(labels, ".")
}

// clusterDomain is the default domain of Service names; a custom domain of this cluster would mean nothing in the provider.
const clusterDomain = "cluster.local"

// IsHeadless reports whether a Service has no cluster IP, which is immutable.
func IsHeadless(s *corev1.Service) bool { return s.Spec.ClusterIP == corev1.ClusterIPNone }

// IsAPIServer reports whether the Service of this name and namespace is the API server's: each cluster has its own.
func IsAPIServer(namespace, service string) bool {
	return namespace == metav1.NamespaceDefault && service == names.APIServerService
}
