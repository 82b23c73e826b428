// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package network

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/names"
)

// readers grants cluster-wide read access to all gateways, by one binding. The subjects are derived from the existing gateways: a binding per gateway
// would need a finalizer on the gateway.
type readers struct {
	all client.Reader
	// client reads and writes the objects of gateways.
	client client.Client
}

func setupReaders(mgr ctrl.Manager, added cache.Cache, c client.Client) error {
	one := handler.EnqueueRequestsFromMapFunc(func(context.Context, client.Object) []reconcile.Request {
		return []reconcile.Request{{NamespacedName: client.ObjectKey{Name: names.RoleGatewayReader}}}
	})
	err := ctrl.NewControllerManagedBy(mgr).
		Named("gatewayreaders").
		Watches(&networkingv1beta1.WgGatewayServer{}, one).
		Watches(&networkingv1beta1.WgGatewayClient{}, one).
		WatchesRawSource(source.Kind(added, client.Object(&rbacv1.ClusterRoleBinding{}), one)).
		Complete(&readers{all: mgr.GetClient(), client: c})
	if err != nil {
		return fmt.Errorf("registering controller gatewayreaders: %w", err)
	}
	return nil
}

func readersBinding() *rbacv1.ClusterRoleBinding {
	return &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: names.RoleGatewayReader, Labels: map[string]string{
			names.AppManagedBy: names.ManagedByLiqo, names.NetworkingComponent: names.ComponentGateway,
		}},
		RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: names.RoleGatewayReader},
	}
}

// Reconcile binds the accounts of all gateways. The binding is deleted with the last one.
func (r *readers) Reconcile(ctx context.Context, _ reconcile.Request) (reconcile.Result, error) {
	return kube.Result(r.syncAll(ctx))
}

func (r *readers) syncAll(ctx context.Context) error {
	servers, errServers := listOf(ctx, r.all, kindOf(&networkingv1beta1.WgGatewayServer{}))
	clients, errClients := listOf(ctx, r.all, kindOf(&networkingv1beta1.WgGatewayClient{}))
	if err := errors.Join(errServers, errClients); err != nil {
		return err
	}
	want := readersBinding()
	for _, obj := range append(servers, clients...) {
		if w := wireguardOf(obj); w.GetDeletionTimestamp().IsZero() && checkPeer(w.peer) == nil {
			want.Subjects = append(want.Subjects, rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Namespace: w.GetNamespace(), Name: w.serviceAccountName()})
		}
	}
	if len(want.Subjects) > 0 {
		slices.SortFunc(want.Subjects, func(a, b rbacv1.Subject) int {
			return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
		})
		want.Subjects = slices.Compact(want.Subjects)
		_, err := kube.Ensure(ctx, r.client, want)
		return err
	}
	current := readersBinding()
	if err := r.client.Get(ctx, client.ObjectKeyFromObject(current), current); err != nil {
		return client.IgnoreNotFound(err)
	}
	return kube.DeleteObject(ctx, r.client, current, "deleting ClusterRoleBinding %s", current.Name)
}
