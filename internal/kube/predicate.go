// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"maps"

	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
)

// Deleted passes delete events only.
var Deleted = predicate.Funcs{
	CreateFunc:  func(event.CreateEvent) bool { return false },
	UpdateFunc:  func(event.UpdateEvent) bool { return false },
	GenericFunc: func(event.GenericEvent) bool { return false },
}

// NamespaceChanged passes updates of the properties that namespace rules read: the labels, and the deletion timestamp,
// which shows in no label.
var NamespaceChanged = predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
	before, after := e.ObjectOld, e.ObjectNew
	return !maps.Equal(before.GetLabels(), after.GetLabels()) || before.GetDeletionTimestamp().IsZero() != after.GetDeletionTimestamp().IsZero()
}}
