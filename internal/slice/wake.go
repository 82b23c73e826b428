// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package slice

import (
	"context"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	authv1beta1 "liqo.io/liqo/api/authentication/v1beta1"
	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/names"
	"liqo.io/liqo/internal/rules"
)

// inNamespaceOf wakes the slices beside obj.
func (r *remotes) inNamespaceOf(ctx context.Context, obj client.Object) []reconcile.Request {
	return requests(ctx, r.client, client.InNamespace(obj.GetNamespace()))
}

// inNamespace wakes the slices in obj, a namespace.
func (r *remotes) inNamespace(ctx context.Context, obj client.Object) []reconcile.Request {
	return requests(ctx, r.client, client.InNamespace(obj.GetName()))
}

// all wakes all slices.
func (r *remotes) all(ctx context.Context, _ client.Object) []reconcile.Request {
	return requests(ctx, r.client, client.MatchingLabels{names.Replicated: "true"})
}

func requests(ctx context.Context, c client.Reader, opts ...client.ListOption) []reconcile.Request {
	return kube.Requests(ctx, c, &authv1beta1.ResourceSliceList{}, kube.Every, opts...)
}

// controlPlaneMoved lets through what changes the address of the API server, and not each heartbeat of a node.
func controlPlaneMoved() predicate.Predicate {
	concerns := func(obj client.Object) bool {
		node, ok := obj.(*corev1.Node)
		return ok && rules.IsControlPlane(node)
	}
	return predicate.Funcs{
		CreateFunc:  func(e event.CreateEvent) bool { return concerns(e.Object) },
		DeleteFunc:  func(e event.DeleteEvent) bool { return concerns(e.Object) },
		GenericFunc: func(e event.GenericEvent) bool { return concerns(e.Object) },
		UpdateFunc: func(e event.UpdateEvent) bool {
			before, ok := e.ObjectOld.(*corev1.Node)
			after, alsoOK := e.ObjectNew.(*corev1.Node)
			if !ok || !alsoOK {
				return false
			}
			return rules.IsControlPlane(before) != rules.IsControlPlane(after) ||
				rules.IsControlPlane(after) && !equality.Semantic.DeepEqual(before.Status.Addresses, after.Status.Addresses)
		},
	}
}

// ofRequest wakes the slice that a CertificateSigningRequest is for.
func ofRequest(_ context.Context, obj client.Object) []reconcile.Request {
	if obj.GetLabels()[names.RemoteTenantCSR] != "true" {
		return nil
	}
	namespace, name, ok := strings.Cut(obj.GetAnnotations()[names.CertificateFor], "/")
	if !ok {
		return nil
	}
	return []reconcile.Request{{NamespacedName: types.NamespacedName{Namespace: namespace, Name: name}}}
}
