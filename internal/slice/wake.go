// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package slice

import (
	"cmp"
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	authv1beta1 "liqo.io/liqo/api/authentication/v1beta1"
	liqov1beta1 "liqo.io/liqo/api/core/v1beta1"
	"liqo.io/liqo/internal/names"
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
	var list authv1beta1.ResourceSliceList
	if err := c.List(ctx, &list, opts...); err != nil {
		log.FromContext(ctx).Error(err, "listing slices to look at failed")
		return nil
	}
	out := make([]reconcile.Request, 0, len(list.Items))
	for i := range list.Items {
		out = append(out, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&list.Items[i])})
	}
	return out
}

// controlPlaneMoved lets through what changes the address of the API server, and not each heartbeat of a node.
func controlPlaneMoved() predicate.Predicate {
	concerns := func(obj client.Object) bool {
		node, ok := obj.(*corev1.Node)
		return ok && isControlPlane(node)
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
			return isControlPlane(before) != isControlPlane(after) ||
				isControlPlane(after) && !equality.Semantic.DeepEqual(before.Status.Addresses, after.Status.Addresses)
		},
	}
}

// defaultStorageClass annotates the class that Kubernetes uses when none is named.
const defaultStorageClass = "storageclass.kubernetes.io/is-default-class"

// storageOffer lists the storage classes of this cluster. One is the default: the one that was configured, else the
// cluster's own.
func storageOffer(classes []storagev1.StorageClass, configured string) []liqov1beta1.StorageType {
	var out []liqov1beta1.StorageType
	for i := range classes {
		class := &classes[i]
		if class.Name == names.StorageClass {
			// Our own class stands for those of other clusters.
			continue
		}
		isDefault := class.Annotations[defaultStorageClass] == "true"
		if configured != "" {
			isDefault = class.Name == configured
		}
		out = append(out, liqov1beta1.StorageType{StorageClassName: class.Name, Default: isDefault})
	}
	slices.SortFunc(out, func(a, b liqov1beta1.StorageType) int { return cmp.Compare(a.StorageClassName, b.StorageClassName) })
	return out
}
