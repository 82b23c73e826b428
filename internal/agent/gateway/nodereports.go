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

// nodeReport is the report of a node about the path of its pods to the peer.
type nodeReport struct {
	node  string
	value networkingv1beta1.ConnectionStatusValue
	since int64 // in seconds, by the clock of the node
}

// nodeReports returns the reports of nodes about a peer.
func nodeReports(snapshot *agent.Snapshot, peer string) []nodeReport {
	var out []nodeReport
	for _, obj := range snapshot.Objects {
		if n, ok := obj.(*networkingv1beta1.InternalNode); ok && n.DeletionTimestamp.IsZero() {
			if report := nodeReportOf(n, peer); report.Value != "" {
				out = append(out, nodeReport{n.Name, report.Value, report.Since.Unix()})
			}
		}
	}
	slices.SortFunc(out, func(a, b nodeReport) int { return strings.Compare(a.node, b.node) })
	return out
}

// nodeReportOf returns the report of a node about a peer, or the zero value.
func nodeReportOf(n *networkingv1beta1.InternalNode, peer string) networkingv1beta1.InternalNodePeer {
	i := slices.IndexFunc(n.Status.Peers, func(p networkingv1beta1.InternalNodePeer) bool { return p.ClusterID == peer })
	if i < 0 {
		return networkingv1beta1.InternalNodePeer{}
	}
	return n.Status.Peers[i]
}

// named is the maximum number of failing nodes that a Connection lists.
const named = 10

// withNodes adds the reports of nodes to the status of a tunnel: connected if the pods of all nodes reach the peer. While the tunnel
// is down, reports of nodes are redundant and ignored.
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

// recoveryDelay separates reports about the restored tunnel from reports about the failed tunnel: every node reports the failure, and revises the
// report with its next answers.
type recoveryDelay struct {
	at   time.Time    // time the tunnel came up; zero while it is down
	then []nodeReport // by then
}

// delayReports returns the reports that count during the given time after the tunnel came up.
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

// publishedStatus is the last written status, and the part stored by the API server: an older CRD prunes fields.
type publishedStatus struct {
	all, kept networkingv1beta1.ConnectionStatus
}

// lastStatus returns the written status if now is its stored part.
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
