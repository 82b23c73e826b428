// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"slices"
	"strings"

	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
	"liqo.io/liqo/internal/agent"
)

// report is what a node says of the way of its pods to the peer.
type report struct {
	node  string
	value networkingv1beta1.ConnectionStatusValue
}

// reports are those of nodes that say something.
func reports(seen *agent.Seen, peer string) []report {
	var out []report
	for _, obj := range seen.Objects {
		if n, ok := obj.(*networkingv1beta1.InternalNode); ok && n.DeletionTimestamp.IsZero() {
			if value := saysOf(n, peer); value != "" {
				out = append(out, report{n.Name, value})
			}
		}
	}
	slices.SortFunc(out, func(a, b report) int { return strings.Compare(a.node, b.node) })
	return out
}

// saysOf is "" for a node that says nothing.
func saysOf(n *networkingv1beta1.InternalNode, peer string) networkingv1beta1.ConnectionStatusValue {
	i := slices.IndexFunc(n.Status.Peers, func(p networkingv1beta1.InternalNodePeer) bool { return p.ClusterID == peer })
	if i < 0 {
		return ""
	}
	return n.Status.Peers[i].Value
}

// named is how many nodes that fail a Connection names.
const named = 10

// withNodes is the status of a Connection whose tunnel has that one: connected are those whose pods all reach each other. What nodes
// say of a tunnel that is not up is known without them.
func withNodes(tunnel networkingv1beta1.ConnectionStatus, nodes []report) networkingv1beta1.ConnectionStatus {
	out := tunnel
	out.Reach, out.FailedNodes = "", nil
	if tunnel.Value != networkingv1beta1.Connected {
		return out
	}
	failed := 0
	for _, n := range nodes {
		if n.value != networkingv1beta1.ConnectionError {
			continue
		}
		if failed++; failed <= named {
			out.FailedNodes = append(out.FailedNodes, n.node)
		}
	}
	switch failed {
	case 0:
		return out
	case len(nodes):
		out.Reach = networkingv1beta1.ReachNone
	default:
		out.Reach = networkingv1beta1.ReachSome
	}
	out.Value = networkingv1beta1.ConnectionError
	return out
}

// tunnelOf is the status of the tunnel of a Connection.
func tunnelOf(was networkingv1beta1.ConnectionStatus) networkingv1beta1.ConnectionStatus {
	out := was
	if was.Reach != "" {
		out.Value = networkingv1beta1.Connected
	}
	out.Reach, out.FailedNodes = "", nil
	return out
}
