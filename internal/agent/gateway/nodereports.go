// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"slices"
	"strings"
	"time"

	apiequality "k8s.io/apimachinery/pkg/api/equality"

	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
	"liqo.io/liqo/internal/agent"
)

// nodeReport is what a node says of the way of its pods to the peer.
type nodeReport struct {
	node  string
	value networkingv1beta1.ConnectionStatusValue
	since int64 // in seconds, by the clock of the node
}

// nodeReports are those of nodes that say something.
func nodeReports(seen *agent.Seen, peer string) []nodeReport {
	var out []nodeReport
	for _, obj := range seen.Objects {
		if n, ok := obj.(*networkingv1beta1.InternalNode); ok && n.DeletionTimestamp.IsZero() {
			if said := saysOf(n, peer); said.Value != "" {
				out = append(out, nodeReport{n.Name, said.Value, said.Since.Unix()})
			}
		}
	}
	slices.SortFunc(out, func(a, b nodeReport) int { return strings.Compare(a.node, b.node) })
	return out
}

// saysOf is the zero value for a node that says nothing.
func saysOf(n *networkingv1beta1.InternalNode, peer string) networkingv1beta1.InternalNodePeer {
	i := slices.IndexFunc(n.Status.Peers, func(p networkingv1beta1.InternalNodePeer) bool { return p.ClusterID == peer })
	if i < 0 {
		return networkingv1beta1.InternalNodePeer{}
	}
	return n.Status.Peers[i]
}

// named is how many nodes that fail a Connection names.
const named = 10

// withNodes is the status of a Connection whose tunnel has that one: connected are those whose pods all reach each other. What nodes
// say of a tunnel that is not up is known without them.
func withNodes(tunnel networkingv1beta1.ConnectionStatus, nodes []nodeReport) networkingv1beta1.ConnectionStatus {
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

// recoveryDelay tells what nodes say of a tunnel that came up just now from what they said of one that was down: all do, and take it back with
// their next answers.
type recoveryDelay struct {
	at   time.Time    // when it came up; the zero value: it is down
	then []nodeReport // by then
}

// delayReports are the reports that count, within so long after the tunnel came up.
func (c *recoveryDelay) delayReports(up bool, nodes []nodeReport, now time.Time, within time.Duration) []nodeReport {
	switch {
	case !up:
		c.at, c.then = time.Time{}, nodes
	case c.at.IsZero():
		c.at = now
	}
	if !up || now.Sub(c.at) >= within {
		return nodes
	}
	return slices.DeleteFunc(slices.Clone(nodes), func(n nodeReport) bool {
		return n.value == networkingv1beta1.ConnectionError && slices.Contains(c.then, n)
	})
}

// publishedStatus is the status that was written last, and what the API server kept of it: less, where its CRD is an older one.
type publishedStatus struct {
	all, kept networkingv1beta1.ConnectionStatus
}

// lastStatus is the status that was written where this is what is left of it.
func (w publishedStatus) lastStatus(now networkingv1beta1.ConnectionStatus) networkingv1beta1.ConnectionStatus {
	if apiequality.Semantic.DeepEqual(now, w.kept) {
		return w.all
	}
	return now
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
