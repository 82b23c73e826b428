// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"maps"

	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
)

// Deleted lets through objects that are gone.
var Deleted = predicate.Funcs{
	CreateFunc:  func(event.CreateEvent) bool { return false },
	UpdateFunc:  func(event.UpdateEvent) bool { return false },
	GenericFunc: func(event.GenericEvent) bool { return false },
}

// NamespaceChanged lets through what rules read of a namespace: its labels, and that it is being deleted, which no label tells.
var NamespaceChanged = predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
	before, after := e.ObjectOld, e.ObjectNew
	return !maps.Equal(before.GetLabels(), after.GetLabels()) || before.GetDeletionTimestamp().IsZero() != after.GetDeletionTimestamp().IsZero()
}}
