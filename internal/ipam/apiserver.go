// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package ipam

import (
	"context"
	"fmt"
	"net/netip"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	ipamv1alpha1 "liqo.io/liqo/api/ipam/v1alpha1"
	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
	offv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/names"
)

// publishedService publishes a Service of this cluster to peers under a translated IP.
type publishedService struct {
	client      client.Client
	service, ip client.ObjectKey
	// kind is the type of the IP, what names the Service in messages, and without is the consequence of a missing IP.
	kind, what, without string
	// wanted reports whether the Service must be published; nil publishes it for its lifetime.
	wanted func(ctx context.Context) (bool, error)
}

// setupAPIServer publishes the API server to peers while pods of this cluster may run remotely: while a virtual node exists.
func setupAPIServer(mgr ctrl.Manager, installation string) error {
	s := &publishedService{
		client: mgr.GetClient(), kind: names.IPTypeAPIServer,
		service: client.ObjectKey{Namespace: metav1.NamespaceDefault, Name: names.APIServerService},
		ip:      client.ObjectKey{Namespace: installation, Name: names.IPTypeAPIServer},
		what:    "the API server", without: "pods in providers do not reach this API server",
	}
	s.wanted = func(ctx context.Context) (bool, error) {
		var nodes offv1beta1.VirtualNodeList
		if err := s.client.List(ctx, &nodes, client.UnsafeDisableDeepCopy); err != nil {
			return false, fmt.Errorf("listing the virtual nodes: %w", err)
		}
		return len(nodes.Items) > 0, nil
	}
	comesOrGoes := predicate.Funcs{UpdateFunc: func(event.UpdateEvent) bool { return false }}
	return s.setupController(mgr, func(b *builder.Builder) {
		b.Watches(&offv1beta1.VirtualNode{}, wakingHandler(s.ownKey), builder.WithPredicates(comesOrGoes))
	})
}

// setupProxy publishes the proxy of the API server to peers while the proxy is installed.
func setupProxy(mgr ctrl.Manager, installation string) error {
	s := &publishedService{
		client: mgr.GetClient(), kind: names.IPTypeAPIServerProxy,
		service: client.ObjectKey{Namespace: installation, Name: names.ProxyService},
		ip:      client.ObjectKey{Namespace: installation, Name: names.APIServerProxyIP},
		what:    "the proxy of the API server", without: "peers do not reach the API server through the tunnel",
	}
	return s.setupController(mgr, func(*builder.Builder) {})
}

func (s *publishedService) setupController(mgr ctrl.Manager, more func(*builder.Builder)) error {
	c := kube.NewController[*corev1.Service](mgr, kube.Options{Name: s.kind}, s)
	b := c.Builder(predicate.NewPredicateFuncs(hasKey(s.service))).
		Watches(&ipamv1alpha1.IP{}, wakingHandler(s.ownKey), builder.WithPredicates(predicate.NewPredicateFuncs(hasKey(s.ip)), predicate.GenerationChangedPredicate{}))
	more(b)
	return c.Complete(b)
}

func hasKey(key client.ObjectKey) func(client.Object) bool {
	return func(obj client.Object) bool { return client.ObjectKeyFromObject(obj) == key }
}

func (s *publishedService) ownKey(client.Object) []client.ObjectKey {
	return []client.ObjectKey{s.service}
}

// Sync creates or deletes the IP. The address of an IP is immutable, so a new address needs a new IP. The Service owns the IP if ownership is
// possible.
func (s *publishedService) Sync(ctx context.Context, service *corev1.Service) error {
	current := &ipamv1alpha1.IP{}
	err := s.client.Get(ctx, s.ip, current)
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("reading the IP of %s: %w", s.what, err)
	}
	exists := !apierrors.IsNotFound(err)
	address := clusterIP(service)
	wanted := address != ""
	if wanted && s.wanted != nil {
		if wanted, err = s.wanted(ctx); err != nil {
			return err
		}
	}
	owned := current.Labels[names.IPType] == s.kind
	switch {
	case exists && !owned && wanted:
		return kube.Invalid("NameTaken", fmt.Errorf("the IP %s is not labelled %s=%s: %s", s.ip, names.IPType, s.kind, s.without))
	case exists && owned && (!wanted || current.Spec.IP != address):
		if err := kube.DeleteObject(ctx, s.client, current, "deleting the IP of %s", s.what); err != nil {
			return err
		}
		return nil // the deletion event triggers the next Sync
	case !wanted:
		return nil
	}
	ip := &ipamv1alpha1.IP{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: s.ip.Namespace, Name: s.ip.Name,
			Labels:      map[string]string{names.IPType: s.kind, names.AppManagedBy: names.ManagedByLiqo},
			Annotations: map[string]string{names.Preinstalled: "true"},
		},
		Spec: ipamv1alpha1.IPSpec{IP: address},
	}
	if service.Namespace == ip.Namespace {
		ip.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Service", Name: service.Name, UID: service.UID}}
	}
	_, err = kube.Ensure(ctx, s.client, ip)
	return err
}

// clusterIP returns the IPv4 address of a Service, else its first address, else "".
func clusterIP(service *corev1.Service) networkingv1beta1.IP {
	var first networkingv1beta1.IP
	for _, text := range service.Spec.ClusterIPs {
		a, err := netip.ParseAddr(text) // fails for "None"
		if err == nil && a.Is4() {
			return networkingv1beta1.IP(text)
		}
		if err == nil && first == "" {
			first = networkingv1beta1.IP(text)
		}
	}
	return first
}
