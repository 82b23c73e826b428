// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package provider

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	offv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
)

// retryQueue holds the ShadowPods with refused pods: a pendingQueue for each namespace, with a rank for each shortage.
//
// When capacity becomes free, the pods are retried one after the other, because only the API server knows whether a pod fits. A
// round begins with the oldest pod. If this pod is refused again, all pods of its rank would be, too: the next pod is from the rank
// with the oldest refusal. If the pod is admitted, there may be capacity for another. Therefore no pod waits behind a pod that
// never fits, and there are about as many requests as changes.
type retryQueue struct {
	wake func(types.NamespacedName)

	mu    sync.Mutex
	in    map[string]*retryRounds
	turns int
}

// retryRounds are the refused ShadowPods of a namespace.
type retryRounds struct {
	pendingQueue
	// round is the number of the current or last round; refused is the last round in which a pod of a rank was refused.
	round   int
	refused map[string]int
	// pod is the pod that was woken at since, "" between rounds.
	pod   types.NamespacedName
	since time.Time
	// left is the number of pods that may still be refused in this round. again is the number for the next round, because more
	// capacity became free during this round.
	left, again int
}

// Maximum numbers of refusals in a round: after a pod was deleted, and after a limit was changed.
const (
	refusalsPerRelease = 8
	unlimitedRefusals  = math.MaxInt
)

// turnLimit is the timeout of an attempt whose result is never reported.
const turnLimit = 10 * time.Second

// Add records a refused ShadowPod and its shortage, "" if that never becomes free.
func (r *retryQueue) Add(sp *offv1beta1.ShadowPod, shortage string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := r.in[sp.Namespace]
	if n == nil {
		if r.in == nil {
			r.in = map[string]*retryRounds{}
		}
		n = &retryRounds{pendingQueue: newPendingQueue(), refused: map[string]int{}}
		r.in[sp.Namespace] = n
	}
	r.turns++
	w := &pendingPod{key: types.NamespacedName{Namespace: sp.Namespace, Name: sp.Name}, created: sp.CreationTimestamp.Time, turn: r.turns}
	before := shortage
	if old := n.removePod(w.key); old != nil {
		w.turn, before = old.turn, old.rank
		n.refused[shortage] = max(n.refused[shortage], n.refused[before])
	}
	n.addPod(w, shortage)
	r.endTurn(n, w.key, before, shortage)
}

// Skip records that the attempt of a ShadowPod ended without refusal and without admission.
func (r *retryQueue) Skip(key types.NamespacedName) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if n := r.in[key.Namespace]; n != nil && n.of[key] != nil {
		r.endTurn(n, key, n.of[key].rank)
	}
}

// Drop removes a ShadowPod.
func (r *retryQueue) Drop(key types.NamespacedName) {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := r.in[key.Namespace]
	if n == nil {
		return
	}
	if n.removePod(key); len(n.of) == 0 {
		delete(r.in, key.Namespace)
		return
	}
	r.endTurn(n, key)
}

// In lists the refused ShadowPods of a namespace.
func (r *retryQueue) In(namespace string) []types.NamespacedName {
	r.mu.Lock()
	defer r.mu.Unlock()
	if n := r.in[namespace]; n != nil {
		return slices.Collect(maps.Keys(n.of))
	}
	return nil
}

// Retry begins a round in a namespace where capacity became free. The round ends after the given number of refusals.
func (r *retryQueue) Retry(namespace string, refusals int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := r.in[namespace]
	switch {
	case n == nil:
	case n.pod.Name != "" && time.Since(n.since) < turnLimit:
		n.again = max(n.again, refusals)
	default:
		r.beginRound(n, refusals)
	}
}

func (r *retryQueue) beginRound(n *retryRounds, refusals int) {
	n.round++
	n.left, n.again = refusals, 0
	maps.DeleteFunc(n.refused, func(rank string, _ int) bool { return n.ranks[rank] == nil })
	r.nextTurn(n, inOrder)
}

// endTurn ends the attempt of a pod refused with these shortages, and starts the next attempt.
func (r *retryQueue) endTurn(n *retryRounds, key types.NamespacedName, shortages ...string) {
	if n.pod != key {
		return
	}
	for _, rank := range shortages {
		n.refused[rank] = n.round
	}
	if len(shortages) > 0 {
		n.left--
	}
	r.nextTurn(n, func(a, b *pendingPod) int {
		return cmp.Or(cmp.Compare(n.refused[a.rank], n.refused[b.rank]), inOrder(a, b))
	})
}

// nextTurn wakes the first pod of a rank that was not refused in this round.
func (r *retryQueue) nextTurn(n *retryRounds, order func(a, b *pendingPod) int) {
	var next *pendingPod
	for rank, pods := range n.ranks {
		if n.refused[rank] != n.round && (next == nil || order(pods[0], next) < 0) {
			next = pods[0]
		}
	}
	switch {
	case next != nil && n.left > 0:
		n.pod, n.since = next.key, time.Now()
		r.wake(next.key)
	case n.again > 0:
		r.beginRound(n, n.again)
	default:
		n.pod = types.NamespacedName{}
	}
}
