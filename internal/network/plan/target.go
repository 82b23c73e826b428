// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
	"liqo.io/liqo/internal/names"
)

// Labels select the nodes and gateways to which a user's object applies. Nodes take objects from the namespace of the installation only,
// gateways from their own, too: write access to other namespaces gives no control over the host network.

// RoutesOnNode reports whether a RouteConfiguration applies to nodes.
func RoutesOnNode(o metav1.Object, liqoNamespace string) bool {
	return appliesTo(o, liqoNamespace) && o.GetLabels()[names.RouteCategory] == names.TargetFabric
}

// FirewallOnNode reports whether a FirewallConfiguration applies to a node.
func FirewallOnNode(o metav1.Object, liqoNamespace, node string) bool {
	l := o.GetLabels()
	if !appliesTo(o, liqoNamespace) || l[names.FirewallCategory] != names.TargetFabric {
		return false
	}
	switch l[names.FirewallSubcategory] {
	case names.TargetAllNodes, names.TargetIPMapping:
		return true
	case names.TargetSingleNode:
		return l[names.FirewallUnique] == node
	}
	return false
}

// RoutesOnGateway reports whether a RouteConfiguration applies to the gateway of a peer on a node.
func RoutesOnGateway(o metav1.Object, liqoNamespace string, peer PeerKey, node string) bool {
	l := o.GetLabels()
	if !appliesTo(o, liqoNamespace, peer.Namespace) || l[names.RouteCategory] != names.TargetGateway {
		return false
	}
	switch unique := l[names.RouteUnique]; l[names.RouteSubcategory] {
	case names.TargetFabric:
		return true
	case names.TargetFabricNode: // a node may have the name of a peer
		return unique == node && node != ""
	default:
		return unique == peer.ClusterID && unique != ""
	}
}

// FirewallOnGateway reports whether a FirewallConfiguration applies to the gateway of a peer.
func FirewallOnGateway(o metav1.Object, liqoNamespace string, peer PeerKey) bool {
	l := o.GetLabels()
	if !appliesTo(o, liqoNamespace, peer.Namespace) || l[names.FirewallCategory] != names.TargetGateway {
		return false
	}
	switch l[names.FirewallSubcategory] {
	case names.TargetAllGateways, names.TargetFabric, names.TargetIPMapping:
		return true
	}
	return peer.ClusterID != "" && l[names.FirewallUnique] == peer.ClusterID
}

// WhyUnapplied returns why neither nodes nor gateways apply a FirewallConfiguration or RouteConfiguration. WhyUnapplied is called for unapplied
// objects only.
func WhyUnapplied(o metav1.Object, liqoNamespace string) string {
	l := o.GetLabels()
	kind, category, subcategory, unique := "RouteConfiguration", names.RouteCategory, names.RouteSubcategory, names.RouteUnique
	onNodes := []string(nil) // a route on nodes needs no subcategory
	if _, ok := o.(*networkingv1beta1.FirewallConfiguration); ok {
		kind, category, subcategory, unique = "FirewallConfiguration", names.FirewallCategory, names.FirewallSubcategory, names.FirewallUnique
		onNodes = []string{names.TargetAllNodes, names.TargetIPMapping, names.TargetSingleNode}
	}
	target, sub := l[category], l[subcategory]
	switch {
	case target != names.TargetFabric && target != names.TargetGateway:
		return fmt.Sprintf("the label %s is %q: it must be %s or %s", category, target, names.TargetGateway, names.TargetFabric)
	case target == names.TargetFabric && o.GetNamespace() != liqoNamespace:
		return fmt.Sprintf("nodes take a %s from namespace %s only", kind, liqoNamespace)
	case target == names.TargetFabric && onNodes != nil && !slices.Contains(onNodes, sub):
		return fmt.Sprintf("the label %s is %q: for nodes it must be one of %s", subcategory, sub, strings.Join(onNodes, ", "))
	case target == names.TargetFabric && sub == names.TargetSingleNode:
		return fmt.Sprintf("node %q of the label %s does not exist", l[unique], unique)
	case target == names.TargetFabric:
		return "there is no node"
	case l[unique] != "":
		return fmt.Sprintf("no gateway for %q (label %s) exists in namespace %s; gateways apply a %s in their own namespace and in %s",
			l[unique], unique, o.GetNamespace(), kind, liqoNamespace)
	case sub == "":
		return fmt.Sprintf("the labels %s and %s are missing: they say which gateways are meant", subcategory, unique)
	}
	return fmt.Sprintf("no gateway exists in namespace %s; gateways apply a %s in their own namespace and in %s", o.GetNamespace(), kind, liqoNamespace)
}

func appliesTo(o metav1.Object, namespaces ...string) bool {
	if o.GetDeletionTimestamp() != nil {
		return false
	}
	for _, n := range namespaces {
		if o.GetNamespace() == n {
			return true
		}
	}
	return false
}
