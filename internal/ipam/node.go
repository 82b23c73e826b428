// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package ipam

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	ipamv1alpha1 "liqo.io/liqo/api/ipam/v1alpha1"
	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/names"
)

// setupNodes registers the controllers that give each node a stable external address.
func setupNodes(mgr ctrl.Manager, l *allocator) error {
	n := &nodes{client: mgr.GetClient(), installation: l.installation}
	nodes := kube.NewController(mgr, kube.Options{Name: "node"}, n)
	err := nodes.Complete(nodes.Builder(predicate.LabelChangedPredicate{}).
		// Created InternalNodes count, too: when the external CIDR goes, the cache may not have an InternalNode that was created just before.
		Watches(&networkingv1beta1.InternalNode{}, wakingHandler(ownKeyOf), builder.WithPredicates(kube.CreatedOrDeleted)).
		Watches(&ipamv1alpha1.Network{}, wakingHandler(n.allKeys), builder.WithPredicates(predicate.GenerationChangedPredicate{})))
	if err != nil {
		return err
	}
	internal := kube.NewController(mgr, kube.Options{Name: "internalnode"}, &internalNodes{client: mgr.GetClient(), allocator: l})
	return internal.Complete(internal.Builder(predicate.GenerationChangedPredicate{}).
		Watches(&networkingv1beta1.InternalNode{}, l.eventHandler(l.nodesWithout)).
		Watches(&ipamv1alpha1.IP{}, wakingHandler(l.nodesWithout), builder.WithPredicates(kube.Deleted)).
		Watches(&ipamv1alpha1.Network{}, wakingHandler(l.nodesOf)))
}

func isPhysical(node *corev1.Node) bool {
	return node.Labels[names.NodeType] != names.NodeTypeVirtualNode
}

func ownKeyOf(obj client.Object) []client.ObjectKey {
	return []client.ObjectKey{client.ObjectKeyFromObject(obj)}
}

// nodesWithout returns the nodes without an address.
func (l *allocator) nodesWithout(client.Object) []client.ObjectKey {
	return l.aliasesThat(func(a aliasClaim) bool { return a.node && !a.addr.IsValid() })
}

// nodesOf returns all nodes if the object is the external CIDR.
func (l *allocator) nodesOf(obj client.Object) []client.ObjectKey {
	n, ok := obj.(*ipamv1alpha1.Network)
	if !ok || networkOf(n, l.installation).kind != names.NetworkTypeExternal {
		return nil
	}
	return l.aliasesThat(func(a aliasClaim) bool { return a.node })
}

// nodes keeps an InternalNode per physical node while the external CIDR exists. The InternalNode is deleted with its node, or with the
// installation, whose uninstaller waits for the deletion.
type nodes struct {
	client       client.Client
	installation string
}

// allKeys returns all nodes if the object is the external CIDR.
func (s *nodes) allKeys(obj client.Object) []client.ObjectKey {
	if !s.isExternal(obj) {
		return nil
	}
	var list corev1.NodeList
	if err := s.client.List(context.Background(), &list); err != nil {
		return nil // only a cache that is stopping fails
	}
	var out []client.ObjectKey
	for i := range list.Items {
		out = append(out, client.ObjectKeyFromObject(&list.Items[i]))
	}
	return out
}

func (s *nodes) isExternal(n client.Object) bool {
	return n.GetNamespace() == s.installation && n.GetLabels()[names.NetworkType] == names.NetworkTypeExternal
}

// Sync creates or deletes the InternalNode.
func (s *nodes) Sync(ctx context.Context, node *corev1.Node) error {
	var list ipamv1alpha1.NetworkList
	if err := s.client.List(ctx, &list, client.InNamespace(s.installation)); err != nil {
		return fmt.Errorf("listing the Networks of this cluster: %w", err)
	}
	want := &networkingv1beta1.InternalNode{ObjectMeta: metav1.ObjectMeta{
		Name:            node.Name,
		OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: node.Name, UID: node.UID}},
	}}
	if isPhysical(node) && slices.ContainsFunc(list.Items, func(n ipamv1alpha1.Network) bool { return s.isExternal(&n) && n.DeletionTimestamp.IsZero() }) {
		_, err := kube.Ensure(ctx, s.client, want)
		return err
	}
	return s.removeInternalNode(ctx, want.Name)
}

func (s *nodes) removeInternalNode(ctx context.Context, name string) error {
	n := &networkingv1beta1.InternalNode{}
	if err := s.client.Get(ctx, client.ObjectKey{Name: name}, n); err != nil {
		return client.IgnoreNotFound(err)
	}
	return kube.DeleteObject(ctx, s.client, n, "deleting the InternalNode")
}

// internalNodes allocates the address of each InternalNode.
type internalNodes struct {
	client    client.Client
	allocator *allocator
}

// Sync allocates an address. The address is immutable: an InternalNode with an address outside the external CIDR is deleted, to be recreated.
func (s *internalNodes) Sync(ctx context.Context, n *networkingv1beta1.InternalNode) error {
	mine := nodeAliasOf(n)
	if !mine.addr.IsValid() {
		return s.allocator.toNode(ctx, n)
	}
	external := s.allocator.networksThat(func(of networkClaim) bool { return mine.asksIn(of) && of.granted.IsValid() && !of.going })
	if len(external) != 1 || external[0].granted.Contains(mine.addr) {
		return nil
	}
	return kube.DeleteObject(ctx, s.client, n, "deleting the InternalNode, whose address %s is not in %s", mine.addr, external[0].granted)
}

// Report sets the condition of the InternalNode and returns its event.
func (s *internalNodes) Report(n *networkingv1beta1.InternalNode, err error) []kube.Event {
	return reportCondition(&n.Status.Conditions, n.Generation, string(n.Spec.Interface.Node.IP), err)
}

// ReplayEvents returns the event of the present condition.
func (s *internalNodes) ReplayEvents(n *networkingv1beta1.InternalNode) []kube.Event {
	return replayEvents(n.Status.Conditions)
}
