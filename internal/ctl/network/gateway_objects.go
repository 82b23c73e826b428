// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package network

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/pflag"
	corev1 "k8s.io/api/core/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	ipamv1alpha1 "liqo.io/liqo/api/ipam/v1alpha1"
	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
	"liqo.io/liqo/internal/ctl/cluster"
	"liqo.io/liqo/internal/ctl/ui"
	"liqo.io/liqo/internal/names"
)

var serviceTypes = []string{"LoadBalancer", "NodePort", "ClusterIP"}

// templateFlags name the template of a gateway.
type templateFlags struct {
	resource, name, namespace string
}

// addFlags adds the flags of a template. The names of the flags begin with prefix.
func (t *templateFlags) addFlags(fs *pflag.FlagSet, prefix, resource, name string) {
	fs.StringVar(&t.resource, prefix+"type", resource, "The kind of the template, as group/version/plural")
	fs.StringVar(&t.name, prefix+"template-name", name, "The name of the template")
	fs.StringVar(&t.namespace, prefix+"template-namespace", "", "The namespace of the template; that of Liqo if empty")
}

// templateReference resolves the kind of the template. Only a custom template needs a request to the cluster.
func (t *templateFlags) templateReference(ctx context.Context, liqoNamespace string, mapper func(context.Context) (apimeta.RESTMapper, error)) (corev1.ObjectReference, error) {
	ref := corev1.ObjectReference{Namespace: cmp.Or(t.namespace, liqoNamespace), Name: t.name}
	if err := cluster.CheckTemplates(t.resource); err != nil {
		return ref, err
	}
	parts := strings.Split(t.resource, "/")
	gvr := schema.GroupVersionResource{Group: parts[0], Version: parts[1], Resource: parts[2]}
	ref.APIVersion = gvr.GroupVersion().String()
	switch t.resource {
	case cluster.ServerTemplates:
		ref.Kind = "WgGatewayServerTemplate"
		return ref, nil
	case cluster.ClientTemplates:
		ref.Kind = "WgGatewayClientTemplate"
		return ref, nil
	}
	m, err := mapper(ctx)
	if err != nil {
		return ref, err
	}
	kind, err := m.KindFor(gvr)
	if err != nil {
		return ref, fmt.Errorf("finding the kind of the type %q: %w", t.resource, err)
	}
	ref.Kind = kind.Kind
	return ref, nil
}

// gatewayServer holds the options of a GatewayServer.
type gatewayServer struct {
	template       templateFlags
	serviceType    string
	port, nodePort int32
	loadBalancerIP string
}

// DropUnused clears the fields without a meaning for the type of Service.
func (s *gatewayServer) DropUnused() {
	if s.serviceType == "ClusterIP" {
		s.nodePort = 0
	}
	if s.serviceType != "LoadBalancer" {
		s.loadBalancerIP = ""
	}
}

func (s *gatewayServer) newObject(key client.ObjectKey, peer string, of corev1.ObjectReference, mtu int) *networkingv1beta1.GatewayServer {
	obj := &networkingv1beta1.GatewayServer{
		ObjectMeta: PeerMeta(key, peer),
		Spec: networkingv1beta1.GatewayServerSpec{
			ServerTemplateRef: of, MTU: mtu,
			Endpoint: networkingv1beta1.Endpoint{Port: s.port, ServiceType: corev1.ServiceType(s.serviceType)},
		},
	}
	if s.nodePort != 0 {
		obj.Spec.Endpoint.NodePort = &s.nodePort
	}
	if s.loadBalancerIP != "" {
		obj.Spec.Endpoint.LoadBalancerIP = &s.loadBalancerIP
	}
	obj.SetGroupVersionKind(networkingv1beta1.GroupVersion.WithKind("GatewayServer"))
	return obj
}

func newGatewayClient(key client.ObjectKey, peer string, of corev1.ObjectReference, mtu int, server networkingv1beta1.EndpointStatus) *networkingv1beta1.GatewayClient {
	obj := &networkingv1beta1.GatewayClient{
		ObjectMeta: PeerMeta(key, peer),
		Spec:       networkingv1beta1.GatewayClientSpec{ClientTemplateRef: of, MTU: mtu, Endpoint: server},
	}
	obj.SetGroupVersionKind(networkingv1beta1.GroupVersion.WithKind("GatewayClient"))
	return obj
}

func newPublicKey(key client.ObjectKey, peer string, public [32]byte) *networkingv1beta1.PublicKey {
	obj := &networkingv1beta1.PublicKey{ObjectMeta: PeerMeta(key, peer), Spec: networkingv1beta1.PublicKeySpec{PublicKey: public[:]}}
	obj.Labels[names.GatewayResource] = "true"
	obj.SetGroupVersionKind(networkingv1beta1.GroupVersion.WithKind("PublicKey"))
	return obj
}

// NewConfiguration returns the Configuration of a peer, with namespace and labels.
func NewConfiguration(key client.ObjectKey, peer string, of networkingv1beta1.ClusterConfigCIDR) *networkingv1beta1.Configuration {
	obj := &networkingv1beta1.Configuration{
		ObjectMeta: PeerMeta(key, peer),
		Spec:       networkingv1beta1.ConfigurationSpec{Remote: networkingv1beta1.ClusterConfig{CIDR: of}},
	}
	obj.SetGroupVersionKind(networkingv1beta1.GroupVersion.WithKind("Configuration"))
	return obj
}

// PeerMeta returns the namespace and the labels of an object about a peer.
func PeerMeta(key client.ObjectKey, peer string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name, Labels: map[string]string{names.RemoteClusterID: peer}}
}

// OwnNetworks returns the networks of a cluster for its peers.
func OwnNetworks(ctx context.Context, kube client.Reader, liqoNamespace string) (networkingv1beta1.ClusterConfigCIDR, error) {
	var of networkingv1beta1.ClusterConfigCIDR
	var list ipamv1alpha1.NetworkList
	err := kube.List(ctx, &list, client.InNamespace(liqoNamespace), client.HasLabels{names.NetworkType})
	if apimeta.IsNoMatchError(err) {
		return of, noNetworking(liqoNamespace)
	}
	if err != nil {
		return of, fmt.Errorf("reading the networks of the cluster: %w", err)
	}
	slices.SortFunc(list.Items, func(a, b ipamv1alpha1.Network) int { return cmp.Compare(a.Name, b.Name) })
	for i := range list.Items {
		n := &list.Items[i]
		into := &of.Pod
		switch n.Labels[names.NetworkType] {
		case names.NetworkTypePod:
		case names.NetworkTypeExternal:
			into = &of.External
		default:
			continue
		}
		if n.Status.CIDR == "" {
			return of, ui.Fail("the Network %s/%s has no prefix yet%s", n.Namespace, n.Name, ConditionSuffix(n.Status.Conditions, ipamv1alpha1.ConditionAllocated))
		}
		*into = append(*into, n.Status.CIDR)
	}
	if len(of.Pod) == 0 || len(of.External) == 0 {
		return of, noNetworking(liqoNamespace)
	}
	return of, nil
}

func noNetworking(liqoNamespace string) error {
	return ui.Fail("the networking module of Liqo is not installed: namespace %q has no Networks of the cluster", liqoNamespace).
		Hint("Was it installed with networking.enabled=false? Is Liqo in another namespace?")
}

// ConditionSuffix returns ": <message>" of a condition that is not True, else "".
func ConditionSuffix(conditions []metav1.Condition, kind string) string {
	if c := apimeta.FindStatusCondition(conditions, kind); c != nil && c.Status != metav1.ConditionTrue && c.Message != "" {
		return ": " + c.Message
	}
	return ""
}
