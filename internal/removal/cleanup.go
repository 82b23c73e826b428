// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package removal

import (
	"context"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	liqov1beta1 "liqo.io/liqo/api/core/v1beta1"
	ipamv1alpha1 "liqo.io/liqo/api/ipam/v1alpha1"
	netv1beta1 "liqo.io/liqo/api/networking/v1beta1"
	offv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/names"
)

// patience is how long controllers may take to let go of their objects: longer, and they never will.
const patience = 5 * time.Minute

// CleanUp removes what the controllers keep for themselves. It runs while they still do, because they hold finalizers, and
// tells them not to make new ones. It refuses while something is in use.
func CleanUp(ctx context.Context, c client.WithWatch, namespace string) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	blockers, err := Check(ctx, c)
	if err != nil {
		return err
	}
	if !blockers.Empty() {
		return fmt.Errorf("liqo is in use: %s", blockers)
	}
	if err := announce(ctx, c, namespace); err != nil {
		return fmt.Errorf("telling the controller-manager: %w", err)
	}
	kinds := []client.ObjectList{
		&liqov1beta1.ForeignClusterList{}, &netv1beta1.InternalNodeList{}, &ipamv1alpha1.IPList{}, &ipamv1alpha1.NetworkList{},
	}
	for _, list := range kinds {
		if err := deleteAll(ctx, c, list); err != nil {
			return err
		}
	}
	for _, list := range append(kinds, &offv1beta1.NamespaceOffloadingList{}) {
		if err := WaitGone(ctx, c, list); err != nil {
			return err
		}
	}
	return nil
}

// announce marks the controller-manager's Deployment, so that controllers stop making what is removed.
func announce(ctx context.Context, c client.Client, namespace string) error {
	d := &appsv1.Deployment{}
	d.Name, d.Namespace = names.ControllerManager, namespace
	patch := fmt.Appendf(nil, `{"metadata":{"annotations":{%q:"true"}}}`, names.Uninstalling)
	return client.IgnoreNotFound(c.Patch(ctx, d, client.RawPatch(mergePatch, patch)))
}

// deleteAll deletes every object of the list's kind; it does not wait.
func deleteAll(ctx context.Context, c client.Client, list client.ObjectList, opts ...client.ListOption) error {
	return each(ctx, c, list, func(obj client.Object) error {
		return c.Delete(ctx, obj, client.PropagationPolicy(background))
	}, opts...)
}
