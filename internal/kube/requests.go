// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"context"
	"maps"

	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// Requests lists objects and returns a reconcile request for each object for which concerned returns true. Lists come
// from a cache: a list fails only while the cache is stopping, or before the cache has synced, and then each object is
// enqueued as the informer delivers the object.
func Requests[T client.Object](ctx context.Context, c client.Reader, list client.ObjectList, concerned func(T) bool, opts ...client.ListOption) []reconcile.Request {
	if err := c.List(ctx, list, opts...); err != nil {
		if ctx.Err() == nil {
			log.FromContext(ctx).Error(err, "listing objects to look at failed")
		}
		return nil
	}
	var out []reconcile.Request
	_ = apimeta.EachListItem(list, func(item runtime.Object) error {
		if obj := item.(T); concerned(obj) {
			out = append(out, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(obj)})
		}
		return nil
	})
	return out
}

// Every selects all objects of a list.
func Every(client.Object) bool { return true }

// Deleted passes delete events only.
var Deleted = predicate.Funcs{
	CreateFunc:  func(event.CreateEvent) bool { return false },
	UpdateFunc:  func(event.UpdateEvent) bool { return false },
	GenericFunc: func(event.GenericEvent) bool { return false },
}

// CreatedOrDeleted passes create and delete events only.
var CreatedOrDeleted = predicate.Funcs{
	UpdateFunc:  func(event.UpdateEvent) bool { return false },
	GenericFunc: func(event.GenericEvent) bool { return false },
}

// NamespaceChanged passes updates of the properties read by namespace rules: the labels, and the deletion timestamp,
// because no label shows it.
var NamespaceChanged = predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
	before, after := e.ObjectOld, e.ObjectNew
	return !maps.Equal(before.GetLabels(), after.GetLabels()) || before.GetDeletionTimestamp().IsZero() != after.GetDeletionTimestamp().IsZero()
}}
