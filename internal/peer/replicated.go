// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package peer

import (
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	authv1beta1 "liqo.io/liqo/api/authentication/v1beta1"
	offv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
)

// Kind is one whose objects cross to the peer. The replicator holds them by its finalizer.
type Kind struct {
	schema.GroupVersionKind
	Plural string
	Object client.Object
	List   client.ObjectList
	// Disposable: at the peer nothing hangs on the copy, so a peer that refuses to have it deleted keeps nothing here.
	Disposable bool
}

// Replicated are all kinds that cross, in the order in which they start.
func Replicated() []Kind {
	return []Kind{
		{offv1beta1.GroupVersion.WithKind("NamespaceMap"), offv1beta1.NamespaceMapResource, &offv1beta1.NamespaceMap{}, &offv1beta1.NamespaceMapList{}, false},
		{authv1beta1.GroupVersion.WithKind("ResourceSlice"), authv1beta1.ResourceSliceResource, &authv1beta1.ResourceSlice{}, &authv1beta1.ResourceSliceList{}, false},
		{authv1beta1.GroupVersion.WithKind("Renew"), authv1beta1.RenewResource, &authv1beta1.Renew{}, &authv1beta1.RenewList{}, true},
	}
}
