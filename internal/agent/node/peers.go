// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
	"liqo.io/liqo/internal/agent"
)

// peersOf is what to tell of peers after that. All nodes and gateways watch it, so nothing is told but what changed: of a way of which
// nothing is known yet, that is what the process before this one told, and a latency is that of the moment.
func peersOf(was []networkingv1beta1.InternalNodePeer, ways []way) []networkingv1beta1.InternalNodePeer {
	var out []networkingv1beta1.InternalNodePeer
	for _, w := range ways {
		i := slices.IndexFunc(was, func(p networkingv1beta1.InternalNodePeer) bool { return p.ClusterID == w.peer })
		known := w.value == networkingv1beta1.Connected || w.value == networkingv1beta1.ConnectionError
		switch {
		case i >= 0 && (!known || was[i].Value == w.value):
			out = append(out, was[i])
		case known:
			p := networkingv1beta1.InternalNodePeer{ClusterID: w.peer, Value: w.value, Since: metav1.NewTime(w.since.Truncate(time.Second))}
			if w.value == networkingv1beta1.Connected {
				p.Latency = agent.LatencyText(w.pulse.Small.Latency)
			}
			out = append(out, p)
		}
	}
	return out
}

// word is what a node said last of peers. When its agent ends nobody looks at errors any more: it takes them back.
type word struct {
	client client.Client

	mu   sync.Mutex
	said *networkingv1beta1.InternalNode
}

// takingBack is how long the API server may take when the agent ends.
const takingBack = 5 * time.Second

func (w *word) keep(said *networkingv1beta1.InternalNode) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.said = said
}

// Start waits for the end.
func (w *word) Start(ctx context.Context) error {
	<-ctx.Done()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), takingBack)
	defer cancel()
	w.mu.Lock()
	defer w.mu.Unlock()
	failed := func(p networkingv1beta1.InternalNodePeer) bool { return p.Value == networkingv1beta1.ConnectionError }
	if w.said == nil || !slices.ContainsFunc(w.said.Status.Peers, failed) {
		return nil
	}
	changed := w.said.DeepCopy()
	changed.Status.Peers = slices.DeleteFunc(changed.Status.Peers, failed)
	if err := w.client.Status().Patch(ctx, changed, client.MergeFrom(w.said)); err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("taking back which peers are not reached: %w", err)
	}
	return nil
}

// NeedLeaderElection is false: each node speaks for itself.
func (w *word) NeedLeaderElection() bool { return false }
