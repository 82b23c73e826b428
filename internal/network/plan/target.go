// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"liqo.io/liqo/internal/names"
)

// Which objects of users apply where is said by their labels. Nodes take them from the namespace of the installation
// only, and gateways from their own, too: whoever may write elsewhere has no say in the network of the host.

// RoutesOnNode tells whether a RouteConfiguration applies to nodes.
func RoutesOnNode(o metav1.Object, home string) bool {
	return applies(o, home) && o.GetLabels()[names.RouteCategory] == names.TargetFabric
}

// FirewallOnNode tells whether a FirewallConfiguration applies to a node.
func FirewallOnNode(o metav1.Object, home, node string) bool {
	l := o.GetLabels()
	if !applies(o, home) || l[names.FirewallCategory] != names.TargetFabric {
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

// RoutesOnGateway tells whether a RouteConfiguration applies to a gateway of a peer that runs on a node.
func RoutesOnGateway(o metav1.Object, home string, peer PeerKey, node string) bool {
	l := o.GetLabels()
	if !applies(o, home, peer.Namespace) || l[names.RouteCategory] != names.TargetGateway {
		return false
	}
	switch unique := l[names.RouteUnique]; l[names.RouteSubcategory] {
	case names.TargetFabric:
		return true
	case names.TargetFabricNode: // a node may be named like a peer
		return unique == node && node != ""
	default:
		return unique == peer.ClusterID && unique != ""
	}
}

// FirewallOnGateway tells whether a FirewallConfiguration applies to a gateway of a peer.
func FirewallOnGateway(o metav1.Object, home string, peer PeerKey) bool {
	l := o.GetLabels()
	if !applies(o, home, peer.Namespace) || l[names.FirewallCategory] != names.TargetGateway {
		return false
	}
	switch l[names.FirewallSubcategory] {
	case names.TargetAllGateways, names.TargetFabric, names.TargetIPMapping:
		return true
	}
	return peer.ClusterID != "" && l[names.FirewallUnique] == peer.ClusterID
}

func applies(o metav1.Object, namespaces ...string) bool {
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
