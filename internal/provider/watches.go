// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package provider

import (
	"context"
	"maps"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	authv1beta1 "liqo.io/liqo/api/authentication/v1beta1"
	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
	offv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/names"
	"liqo.io/liqo/internal/peer"
)

const evictionDelay = 2 * time.Second

// addWatches watches everything that remote namespaces depend on, besides their NamespaceMap.
func (s *namespaceMaps) addWatches(b *builder.Builder) *builder.Builder {
	return b.
		Watches(&corev1.Namespace{}, handler.EnqueueRequestsFromMapFunc(s.ofNamespace), builder.WithPredicates(namespaceChanged)).
		Watches(&rbacv1.RoleBinding{}, handler.EnqueueRequestsFromMapFunc(ofAnnotation), builder.WithPredicates(annotated)).
		Watches(&rbacv1.RoleBinding{}, handler.EnqueueRequestsFromMapFunc(s.ofBinding)).
		Watches(&rbacv1.ClusterRoleBinding{}, handler.EnqueueRequestsFromMapFunc(s.ofBinding)).
		Watches(&offv1beta1.NamespaceMap{}, handler.EnqueueRequestsFromMapFunc(s.inNamespaceOf), builder.WithPredicates(leaving)).
		Watches(&networkingv1beta1.Configuration{}, handler.EnqueueRequestsFromMapFunc(s.inNamespaceOf), builder.WithPredicates(networksChanged)).
		Watches(&authv1beta1.Tenant{}, handler.EnqueueRequestsFromMapFunc(s.inNamespaceOf), builder.WithPredicates(tenantChanged)).
		Watches(&offv1beta1.Quota{}, handler.EnqueueRequestsFromMapFunc(s.inNamespaceOf), builder.WithPredicates(userChanged))
}

// namespaceChanged filters out updates of namespaces that no decision depends on.
var namespaceChanged = predicate.Funcs{
	UpdateFunc: func(e event.UpdateEvent) bool {
		before, after := e.ObjectOld, e.ObjectNew
		return !maps.Equal(before.GetLabels(), after.GetLabels()) ||
			!maps.Equal(before.GetAnnotations(), after.GetAnnotations()) ||
			before.GetDeletionTimestamp().IsZero() != after.GetDeletionTimestamp().IsZero()
	},
}

// tenantChanged passes changes of the spec and of the conditions of a Tenant.
var tenantChanged = predicate.Funcs{
	UpdateFunc: func(e event.UpdateEvent) bool {
		before, after := e.ObjectOld.(*authv1beta1.Tenant), e.ObjectNew.(*authv1beta1.Tenant)
		was := apimeta.FindStatusCondition(before.Status.Conditions, authv1beta1.TenantReady)
		is := apimeta.FindStatusCondition(after.Status.Conditions, authv1beta1.TenantReady)
		return before.Generation != after.Generation || !equality.Semantic.DeepEqual(was, is)
	},
}

// leaving passes events that free capacity for another namespace.
var leaving = predicate.Funcs{
	CreateFunc: func(event.CreateEvent) bool { return false },
	UpdateFunc: func(e event.UpdateEvent) bool {
		return e.ObjectOld.GetDeletionTimestamp().IsZero() != e.ObjectNew.GetDeletionTimestamp().IsZero()
	},
}

// networksChanged passes changes of a Configuration only if the networks of the peer changed.
var networksChanged = predicate.Funcs{
	UpdateFunc: func(e event.UpdateEvent) bool {
		return !equality.Semantic.DeepEqual(
			translatedNetworks(e.ObjectOld.(*networkingv1beta1.Configuration)), translatedNetworks(e.ObjectNew.(*networkingv1beta1.Configuration)))
	},
}

// userChanged filters out changes of the amounts of a Quota.
var userChanged = predicate.Funcs{
	UpdateFunc: func(e event.UpdateEvent) bool {
		before, after := e.ObjectOld.(*offv1beta1.Quota), e.ObjectNew.(*offv1beta1.Quota)
		return before.Spec.User != after.Spec.User || before.DeletionTimestamp.IsZero() != after.DeletionTimestamp.IsZero()
	},
}

var annotated = predicate.NewPredicateFuncs(func(obj client.Object) bool {
	return obj.GetAnnotations()[names.ManagedByNamespaceMap] != ""
})

func ofAnnotation(_ context.Context, obj client.Object) []reconcile.Request {
	namespace, name, ok := cutOwner(obj.GetAnnotations()[names.ManagedByNamespaceMap])
	if !ok {
		return nil
	}
	return []reconcile.Request{{NamespacedName: types.NamespacedName{Namespace: namespace, Name: name}}}
}

// ofNamespace returns the NamespaceMaps of a namespace: the creator, the maps that request a namespace of this name, and, for a tenant
// namespace, the maps in the namespace.
func (s *namespaceMaps) ofNamespace(ctx context.Context, obj client.Object) []reconcile.Request {
	out := ofAnnotation(ctx, obj)
	return append(out, s.requestsFor(ctx, func(nm *offv1beta1.NamespaceMap) bool {
		return isDesired(nm, obj.GetName()) || nm.Namespace == obj.GetName()
	})...)
}

// inNamespaceOf returns the NamespaceMaps in the tenant namespace of an object.
func (s *namespaceMaps) inNamespaceOf(ctx context.Context, obj client.Object) []reconcile.Request {
	return s.requestsFor(ctx, func(nm *offv1beta1.NamespaceMap) bool { return nm.Namespace == obj.GetNamespace() })
}

func (s *namespaceMaps) requestsFor(ctx context.Context, concerned func(*offv1beta1.NamespaceMap) bool) []reconcile.Request {
	return kube.Requests(ctx, s.client, &offv1beta1.NamespaceMapList{}, func(nm *offv1beta1.NamespaceMap) bool {
		return peer.IsReplica(nm) && concerned(nm)
	})
}
