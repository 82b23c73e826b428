// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package peer

import (
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	authv1beta1 "liqo.io/liqo/api/authentication/v1beta1"
	offv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
)

// Kind is a kind whose objects are replicated to the peer. The replicator adds its finalizer to the objects.
type Kind struct {
	schema.GroupVersionKind
	Plural string
	Object client.Object
	List   client.ObjectList
	// Disposable means that no resource at the peer depends on the replica, so a peer that rejects the deletion of the
	// replica does not block the deletion of the local object.
	Disposable bool
}

// Replicated returns all replicated kinds, in the order of their start.
func Replicated() []Kind {
	return []Kind{
		{offv1beta1.GroupVersion.WithKind("NamespaceMap"), offv1beta1.NamespaceMapResource, &offv1beta1.NamespaceMap{}, &offv1beta1.NamespaceMapList{}, false},
		{authv1beta1.GroupVersion.WithKind("ResourceSlice"), authv1beta1.ResourceSliceResource, &authv1beta1.ResourceSlice{}, &authv1beta1.ResourceSliceList{}, false},
		{authv1beta1.GroupVersion.WithKind("Renew"), authv1beta1.RenewResource, &authv1beta1.Renew{}, &authv1beta1.RenewList{}, true},
	}
}
