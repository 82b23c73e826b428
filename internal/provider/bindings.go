// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package provider

import (
	"context"
	"fmt"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	offv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/names"
	"liqo.io/liqo/internal/policy"
)

// boundIndex indexes bindings by the namespaces whose ServiceAccounts they give rights to.
const boundIndex = "host.boundNamespaces"

func indexBindings(mgr ctrl.Manager) error {
	for _, kind := range []client.Object{&rbacv1.RoleBinding{}, &rbacv1.ClusterRoleBinding{}} {
		if err := mgr.GetFieldIndexer().IndexField(context.Background(), kind, boundIndex, boundBy); err != nil {
			return fmt.Errorf("indexing %T: %w", kind, err)
		}
	}
	return nil
}

// boundBy returns the namespaces whose ServiceAccounts the binding gives rights to.
func boundBy(obj client.Object) []string {
	switch b := obj.(type) {
	case *rbacv1.RoleBinding:
		return policy.BoundNamespaces(b.Subjects, b.Namespace)
	case *rbacv1.ClusterRoleBinding:
		return policy.BoundNamespaces(b.Subjects, "")
	}
	return nil
}

// bindingsOf returns a binding for each desired namespace whose ServiceAccounts have rights by one. A binding with the label of
// the consumer is intended for the consumer, and left out.
func (s *namespaceMaps) bindingsOf(ctx context.Context, in mapInput) (map[string]string, error) {
	out := map[string]string{}
	for _, name := range in.desired {
		found := client.MatchingFields{boundIndex: name}
		cluster := &rbacv1.ClusterRoleBindingList{}
		if err := s.client.List(ctx, cluster, found, client.UnsafeDisableDeepCopy); err != nil {
			return nil, fmt.Errorf("listing ClusterRoleBindings: %w", err)
		}
		for i := range cluster.Items {
			if b := &cluster.Items[i]; b.Labels[names.RemoteClusterID] != in.consumer {
				out[name] = "ClusterRoleBinding " + b.Name
			}
		}
		inNamespaces := &rbacv1.RoleBindingList{}
		if err := s.client.List(ctx, inNamespaces, found, client.UnsafeDisableDeepCopy); err != nil {
			return nil, fmt.Errorf("listing RoleBindings: %w", err)
		}
		for i := range inNamespaces.Items {
			if b := &inNamespaces.Items[i]; out[name] == "" && b.Labels[names.RemoteClusterID] != in.consumer {
				out[name] = "RoleBinding " + b.Namespace + "/" + b.Name
			}
		}
	}
	return out, nil
}

// ofBinding returns the NamespaceMaps that request a namespace whose ServiceAccounts the binding gives rights to.
func (s *namespaceMaps) ofBinding(ctx context.Context, obj client.Object) []reconcile.Request {
	bound := sets.New(boundBy(obj)...)
	if bound.Len() == 0 {
		return nil
	}
	return s.requestsFor(ctx, func(nm *offv1beta1.NamespaceMap) bool {
		for _, remote := range nm.Spec.DesiredMapping {
			if bound.Has(remote) {
				return true
			}
		}
		return false
	})
}
