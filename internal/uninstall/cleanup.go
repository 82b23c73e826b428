// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package uninstall

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	liqov1beta1 "liqo.io/liqo/api/core/v1beta1"
	ipamv1alpha1 "liqo.io/liqo/api/ipam/v1alpha1"
	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
	offv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/names"
	"liqo.io/liqo/internal/peer"
)

// patience is how long controllers may take to remove their finalizers. Longer means never.
const patience = 5 * time.Minute

// CleanUp deletes the controllers' own objects, and removes finalizers that would need a controller later. It runs before the controllers stop,
// because they handle finalizers. It fails while anything is in use.
func CleanUp(ctx context.Context, c client.WithWatch) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	p := kube.WrapCalls(c, kube.RetryTransient)
	blockers, err := Check(ctx, p)
	if err != nil {
		return err
	}
	if !blockers.Empty() {
		return fmt.Errorf("liqo is in use: %s", blockers)
	}
	kinds := []client.ObjectList{
		&liqov1beta1.ForeignClusterList{}, &networkingv1beta1.InternalNodeList{}, &ipamv1alpha1.IPList{}, &ipamv1alpha1.NetworkList{},
	}
	for _, list := range kinds {
		if err := deleteAll(ctx, p, list, notOfServices(list)...); err != nil {
			return err
		}
	}
	for _, list := range append(kinds, &offv1beta1.NamespaceOffloadingList{}) {
		if err := kube.WaitForNone(ctx, c, list, notOfServices(list)...); err != nil {
			return err
		}
	}
	return releaseRights(ctx, p)
}

// notOfServices excludes the IP of the proxy: the IP is recreated while its Service exists, and deleted with the Service.
func notOfServices(list client.ObjectList) []client.ListOption {
	if _, ok := list.(*ipamv1alpha1.IPList); !ok {
		return nil
	}
	others, err := labels.Parse(names.IPType + "!=" + names.IPTypeAPIServerProxy)
	if err != nil {
		panic(err) // the selector is a constant
	}
	return []client.ListOption{client.MatchingLabelsSelector{Selector: others}}
}

// releaseRights removes the finalizer from the bindings of tenant namespaces, since no controller would later. A binding keeps the finalizer while
// the replicator has a finalizer on an object in the namespace, because the replicator needs the permissions for cleanup. The ForeignClusters show
// that no credentials of peers remain.
func releaseRights(ctx context.Context, c client.Client) error {
	used := set{}
	for _, kind := range peer.Replicated() {
		if err := forEach(ctx, c, listOf(kind.GroupVersionKind), func(obj client.Object) error {
			if controllerutil.ContainsFinalizer(obj, names.ReplicatorFinalizer) {
				used[obj.GetNamespace()] = true
			}
			return nil
		}); err != nil {
			return err
		}
	}
	return forEach(ctx, c, listOf(roleBindingKind), func(binding client.Object) error {
		if used[binding.GetNamespace()] {
			return nil
		}
		return letGo(ctx, c, binding, names.TenantRightsFinalizer)
	}, client.HasLabels{names.RemoteClusterID})
}

// deleteAll deletes all objects of the list's kind, without a wait.
func deleteAll(ctx context.Context, c client.Client, list client.ObjectList, opts ...client.ListOption) error {
	return forEach(ctx, c, list, func(obj client.Object) error {
		return c.Delete(ctx, obj, client.PropagationPolicy(background))
	}, opts...)
}
