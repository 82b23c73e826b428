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

// setupNodes registers what gives each node an address of its own in front of peers, for as long as it lives.
func setupNodes(mgr ctrl.Manager, l *allocator) error {
	n := &nodes{client: mgr.GetClient(), installation: l.installation}
	nodes := kube.NewController(mgr, kube.Options{Name: "node"}, n)
	err := nodes.Complete(nodes.Builder(predicate.LabelChangedPredicate{}).
		Watches(&networkingv1beta1.InternalNode{}, wakingHandler(ownKeyOf), builder.WithPredicates(kube.Deleted)).
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

// nodesWithout are the nodes that have no address yet.
func (l *allocator) nodesWithout(client.Object) []client.ObjectKey {
	return l.aliasesThat(func(a aliasClaim) bool { return a.node && !a.addr.IsValid() })
}

// nodesOf are all nodes, when the external CIDR changes.
func (l *allocator) nodesOf(obj client.Object) []client.ObjectKey {
	n, ok := obj.(*ipamv1alpha1.Network)
	if !ok || networkOf(n, l.installation).kind != names.NetworkTypeExternal {
		return nil
	}
	return l.aliasesThat(func(a aliasClaim) bool { return a.node })
}

// nodes has an InternalNode for each physical node, as long as there is an external CIDR to give it an address of. It goes with its
// node, or with the installation, whose uninstaller waits for that.
type nodes struct {
	client       client.Client
	installation string
}

// allKeys are the nodes, when an external CIDR comes or goes.
func (s *nodes) allKeys(obj client.Object) []client.ObjectKey {
	if !s.isExternal(obj) {
		return nil
	}
	var list corev1.NodeList
	if err := s.client.List(context.Background(), &list); err != nil {
		return nil // of a cache that is stopping
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

// Sync makes the InternalNode, or deletes it.
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
	if err := s.client.Delete(ctx, n, client.Preconditions{UID: &n.UID}); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("deleting the InternalNode: %w", err)
	}
	return nil
}

// internalNodes gives each InternalNode its address.
type internalNodes struct {
	client    client.Client
	allocator *allocator
}

// Sync grants an address, and has an InternalNode made anew whose address is none of the external CIDR any more: it never changes.
func (s *internalNodes) Sync(ctx context.Context, n *networkingv1beta1.InternalNode) error {
	mine := nodeAliasOf(n)
	if !mine.addr.IsValid() {
		return s.allocator.toNode(ctx, n)
	}
	external := s.allocator.networksThat(func(of networkClaim) bool { return mine.asksIn(of) && of.granted.IsValid() && !of.going })
	if len(external) != 1 || external[0].granted.Contains(mine.addr) {
		return nil
	}
	if err := s.client.Delete(ctx, n, client.Preconditions{UID: &n.UID}); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("deleting the InternalNode, whose address %s is not in %s: %w", mine.addr, external[0].granted, err)
	}
	return nil
}

// Report says whether the node has its address, or why not.
func (s *internalNodes) Report(n *networkingv1beta1.InternalNode, err error) []kube.Event {
	return reportCondition(&n.Status.Conditions, n.Generation, string(n.Spec.Interface.Node.IP), err)
}

// Recall tells what the condition says.
func (s *internalNodes) Recall(n *networkingv1beta1.InternalNode) []kube.Event {
	return replayEvents(n.Status.Conditions)
}
