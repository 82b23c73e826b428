// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package vnode

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	liqov1beta1 "liqo.io/liqo/api/core/v1beta1"
)

// network knows whether addresses of the provider mean anything here.
type network struct {
	client   client.Client
	provider liqov1beta1.ClusterID
	// changed is called for each pod of the node when the answer changes.
	changed func(pod client.ObjectKey)
	// told is the last answer that the pods followed; nil is none. One worker uses it.
	told *bool
}

func setupNetwork(ctx context.Context, mgr ctrl.Manager, n *network) error {
	// Pods are reflected only once this is known, so that a restart takes no address away.
	if _, err := mgr.GetCache().GetInformer(ctx, &liqov1beta1.ForeignCluster{}, cache.BlockUntilSynced(false)); err != nil {
		return fmt.Errorf("watching the foreign cluster: %w", err)
	}
	if err := ctrl.NewControllerManagedBy(mgr).Named("provider-network").For(&liqov1beta1.ForeignCluster{}).Complete(n); err != nil {
		return fmt.Errorf("registering the controller of the network: %w", err)
	}
	return nil
}

// enabled tells whether there is a network to the provider. It need not work at this moment: addresses stay the same.
func (n *network) enabled(ctx context.Context) (bool, error) {
	peer := &liqov1beta1.ForeignCluster{}
	err := n.client.Get(ctx, types.NamespacedName{Name: string(n.provider)}, peer)
	if err := client.IgnoreNotFound(err); err != nil {
		return false, fmt.Errorf("reading the foreign cluster: %w", err)
	}
	return peer.Status.Modules.Networking.Enabled, nil
}

func (n *network) Reconcile(ctx context.Context, _ reconcile.Request) (reconcile.Result, error) {
	now, err := n.enabled(ctx)
	if err != nil || (n.told != nil && *n.told == now) {
		return reconcile.Result{}, err
	}
	var pods corev1.PodList
	if err := n.client.List(ctx, &pods); err != nil {
		return reconcile.Result{}, fmt.Errorf("listing the pods of the node: %w", err)
	}
	for i := range pods.Items {
		n.changed(client.ObjectKeyFromObject(&pods.Items[i]))
	}
	n.told = &now
	return reconcile.Result{}, nil
}
