// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
	"liqo.io/liqo/internal/agent"
)

// peersOf returns the reports about peers that follow was. All nodes and gateways watch them, so an unchanged report is not rewritten: a path
// without health keeps the report of the previous process, which stays valid after its end, and a latency is only updated with another change.
func peersOf(was []networkingv1beta1.InternalNodePeer, ways []pathState) []networkingv1beta1.InternalNodePeer {
	var out []networkingv1beta1.InternalNodePeer
	for _, w := range ways {
		i := slices.IndexFunc(was, func(p networkingv1beta1.InternalNodePeer) bool { return p.ClusterID == w.Peer })
		known := w.value == networkingv1beta1.Connected || w.value == networkingv1beta1.ConnectionError
		switch {
		case i >= 0 && (!known || was[i].Value == w.value):
			out = append(out, was[i])
		case known:
			p := networkingv1beta1.InternalNodePeer{ClusterID: w.Peer, Value: w.value, Since: metav1.NewTime(w.since.Truncate(time.Second))}
			if w.value == networkingv1beta1.Connected {
				p.Latency = agent.LatencyText(w.pulse.Small.Latency)
			}
			out = append(out, p)
		}
	}
	return out
}
