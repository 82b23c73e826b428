// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package provider

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// pendingPod is a ShadowPod that requests quota.
type pendingPod struct {
	key     types.NamespacedName
	created time.Time
	pod     *corev1.PodSpec
	need    corev1.ResourceList
	// turn orders pods that were created in the same second by when each was first queued.
	turn int
	// ran reports whether the ShadowPod has had a running pod, which a cordon does not end.
	ran bool
	// rank is the key of the pod in pendingQueue.ranks.
	rank string
}

func inOrder(a, b *pendingPod) int {
	return cmp.Or(a.created.Compare(b.created), cmp.Compare(a.turn, b.turn))
}

// pendingQueue holds the pending pods of an account, grouped into ranks of equal need. If the first pod of a rank does not fit,
// no other pod of the rank fits. Independently of the length of the queue, freed capacity is offered once to each rank, and once
// more for each accepting pod.
type pendingQueue struct {
	of map[types.NamespacedName]*pendingPod
	// ranks holds the pending pods of each rank in order of creation.
	ranks map[string][]*pendingPod
}

// unsatisfiable is the rank of unsatisfiable pods, to which no capacity is offered.
const unsatisfiable = ""

func newPendingQueue() pendingQueue {
	return pendingQueue{of: map[types.NamespacedName]*pendingPod{}, ranks: map[string][]*pendingPod{}}
}

func (l pendingQueue) addPod(w *pendingPod, rank string) {
	l.of[w.key], w.rank = w, rank
	if rank == unsatisfiable {
		return
	}
	at, _ := slices.BinarySearchFunc(l.ranks[rank], w, inOrder)
	l.ranks[rank] = slices.Insert(l.ranks[rank], at, w)
}

// removePod removes a pending pod from the queue and returns the removed pod, or nil.
func (l pendingQueue) removePod(key types.NamespacedName) *pendingPod {
	w := l.of[key]
	if w == nil {
		return nil
	}
	delete(l.of, key)
	if w.rank == unsatisfiable {
		return w
	}
	same := l.ranks[w.rank]
	if at, _ := slices.BinarySearchFunc(same, w, inOrder); len(same) > 1 {
		l.ranks[w.rank] = slices.Delete(same, at, at+1)
	} else {
		delete(l.ranks, w.rank)
	}
	return w
}

func (l pendingQueue) movePod(w *pendingPod, rank string) {
	if w.rank != rank {
		l.removePod(w.key)
		l.addPod(w, rank)
	}
}

// servePods offers free capacity in order of creation. take removes each pod that accepts from the queue.
func (l pendingQueue) servePods(take func(*pendingPod) bool) {
	first := func(a, b string) int { return inOrder(l.ranks[a][0], l.ranks[b][0]) }
	open := slices.SortedFunc(maps.Keys(l.ranks), first)
	for len(open) > 0 {
		rank := open[0]
		open = open[1:]
		if take(l.ranks[rank][0]) && len(l.ranks[rank]) > 0 {
			at, _ := slices.BinarySearchFunc(open, rank, first)
			open = slices.Insert(open, at, rank)
		}
	}
}

// listText returns a text that is equal for equal lists.
func listText(list corev1.ResourceList) string {
	var out strings.Builder
	for _, name := range slices.Sorted(maps.Keys(list)) {
		if q := list[name]; !q.IsZero() {
			out.WriteString(string(name) + "=" + q.String() + " ")
		}
	}
	return out.String()
}
