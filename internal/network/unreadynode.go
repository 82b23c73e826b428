// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package network

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
	"liqo.io/liqo/internal/kube"
)

// unreadyNodes removes a node's reports about peers once, when the node becomes unready, because the agent of the node may be dead. An agent that
// still runs reports again.
type unreadyNodes struct{ client client.Client }

// SetupUnreadyNodes registers the controller that removes the reports of unready nodes.
func SetupUnreadyNodes(mgr ctrl.Manager) error {
	if _, err := mgr.GetCache().GetInformer(context.Background(), &networkingv1beta1.InternalNode{}); err != nil {
		return fmt.Errorf("caching InternalNodes: %w", err)
	}
	c := kube.NewController(mgr, kube.Options{Name: "silentnode"}, &unreadyNodes{client: mgr.GetClient()})
	return c.Complete(c.Builder(predicate.Funcs{UpdateFunc: readinessChanged}))
}

// readinessChanged reports whether the readiness of a node changed.
func readinessChanged(e event.UpdateEvent) bool {
	return kube.NodeReady(e.ObjectOld.(*corev1.Node)) != kube.NodeReady(e.ObjectNew.(*corev1.Node))
}

// Sync checks one node.
func (s *unreadyNodes) Sync(ctx context.Context, node *corev1.Node) error {
	if kube.NodeReady(node) {
		return nil
	}
	reports := &networkingv1beta1.InternalNode{}
	if err := s.client.Get(ctx, client.ObjectKey{Name: node.Name}, reports); err != nil {
		return client.IgnoreNotFound(err)
	}
	if len(reports.Status.Peers) == 0 {
		return nil
	}
	changed := reports.DeepCopy()
	changed.Status.Peers = nil
	if err := s.client.Status().Patch(ctx, changed, client.MergeFrom(reports)); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("removing the node's report about peers: %w", err)
	}
	return nil
}
