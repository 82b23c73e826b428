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

// apiServer shows the API server to peers, under an address of its own, as long as pods of this cluster may run there: as long as
// there is a virtual node.
type apiServer struct {
	client       client.Client
	installation string
}

func setupAPIServer(mgr ctrl.Manager, installation string) error {
	s := &apiServer{client: mgr.GetClient(), installation: installation}
	c := kube.NewController[*corev1.Service](mgr, kube.Options{Name: "api-server"}, s)
	comesOrGoes := predicate.Funcs{UpdateFunc: func(event.UpdateEvent) bool { return false }}
	return c.Complete(c.Builder(predicate.NewPredicateFuncs(isAPIServer)).
		Watches(&offv1beta1.VirtualNode{}, waking(theAPIServer), builder.WithPredicates(comesOrGoes)).
		Watches(&ipamv1alpha1.IP{}, waking(theAPIServer), builder.WithPredicates(predicate.NewPredicateFuncs(s.isIP), predicate.GenerationChangedPredicate{})))
}

func isAPIServer(obj client.Object) bool {
	return obj.GetNamespace() == metav1.NamespaceDefault && obj.GetName() == names.APIServerService
}

func (s *apiServer) isIP(obj client.Object) bool {
	return obj.GetNamespace() == s.installation && obj.GetName() == names.IPTypeAPIServer
}

func theAPIServer(client.Object) []client.ObjectKey {
	return []client.ObjectKey{{Namespace: metav1.NamespaceDefault, Name: names.APIServerService}}
}

// Sync makes the IP, or deletes it. Its address never changes, so another one is another IP.
func (s *apiServer) Sync(ctx context.Context, service *corev1.Service) error {
	have := &ipamv1alpha1.IP{}
	err := s.client.Get(ctx, client.ObjectKey{Namespace: s.installation, Name: names.IPTypeAPIServer}, have)
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("reading the IP of the API server: %w", err)
	}
	exists := !apierrors.IsNotFound(err)
	var nodes offv1beta1.VirtualNodeList
	if err := s.client.List(ctx, &nodes, client.UnsafeDisableDeepCopy); err != nil {
		return fmt.Errorf("listing the virtual nodes: %w", err)
	}
	address := clusterIP(service)
	wanted := len(nodes.Items) > 0 && address != ""
	ours := have.Labels[names.IPType] == names.IPTypeAPIServer
	switch {
	case exists && !ours && wanted:
		return kube.Invalid("NameTaken", fmt.Errorf("the IP %s/%s is not labelled %s=%s: pods in providers do not reach this API server",
			have.Namespace, have.Name, names.IPType, names.IPTypeAPIServer))
	case exists && ours && (!wanted || have.Spec.IP != address):
		if err := s.client.Delete(ctx, have, client.Preconditions{UID: &have.UID}); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("deleting the IP of the API server: %w", err)
		}
		return nil // that it is gone wakes us
	case !wanted:
		return nil
	}
	_, err = kube.Ensure(ctx, s.client, &ipamv1alpha1.IP{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: s.installation, Name: names.IPTypeAPIServer,
			Labels:      map[string]string{names.IPType: names.IPTypeAPIServer, names.AppManagedBy: names.ManagedByLiqo},
			Annotations: map[string]string{names.Preinstalled: "true"},
		},
		Spec: ipamv1alpha1.IPSpec{IP: address},
	})
	return err
}

// clusterIP is the IPv4 address of a Service, or else its first; empty for none.
func clusterIP(service *corev1.Service) networkingv1beta1.IP {
	var first networkingv1beta1.IP
	for _, text := range service.Spec.ClusterIPs {
		a, err := netip.ParseAddr(text) // "None" is none
		if err == nil && a.Is4() {
			return networkingv1beta1.IP(text)
		}
		if err == nil && first == "" {
			first = networkingv1beta1.IP(text)
		}
	}
	return first
}
