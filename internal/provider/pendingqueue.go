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

// pendingPod is a ShadowPod that asks for a share.
type pendingPod struct {
	key     types.NamespacedName
	created time.Time
	pod     *corev1.PodSpec
	need    corev1.ResourceList
	// turn is when it first had to wait, among those created in the same second.
	turn int
	// ran tells that it had a running pod before, which a cordon does not end.
	ran bool
	// rank is where it waits.
	rank string
}

func inOrder(a, b *pendingPod) int {
	return cmp.Or(a.created.Compare(b.created), cmp.Compare(a.turn, b.turn))
}

// pendingQueue is those who wait. Of those who lack the same, which are one rank, nobody fits when the first does not: however many
// wait, what becomes free is offered once to each rank, and once to each who takes it.
type pendingQueue struct {
	of map[types.NamespacedName]*pendingPod
	// ranks have their waiters in order of creation.
	ranks map[string][]*pendingPod
}

// hopeless is the rank of those to whom nothing is offered.
const hopeless = ""

func newLine() pendingQueue {
	return pendingQueue{of: map[types.NamespacedName]*pendingPod{}, ranks: map[string][]*pendingPod{}}
}

func (l pendingQueue) addPod(w *pendingPod, rank string) {
	l.of[w.key], w.rank = w, rank
	if rank == hopeless {
		return
	}
	at, _ := slices.BinarySearchFunc(l.ranks[rank], w, inOrder)
	l.ranks[rank] = slices.Insert(l.ranks[rank], at, w)
}

// removePod takes a waiter off the line, nil if it is not there.
func (l pendingQueue) removePod(key types.NamespacedName) *pendingPod {
	w := l.of[key]
	if w == nil {
		return nil
	}
	delete(l.of, key)
	if w.rank == hopeless {
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

// servePods offers what is free, in order of creation. take removes from the line whoever takes it.
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

// listText is the same for equal lists.
func listText(list corev1.ResourceList) string {
	var out strings.Builder
	for _, name := range slices.Sorted(maps.Keys(list)) {
		if q := list[name]; !q.IsZero() {
			out.WriteString(string(name) + "=" + q.String() + " ")
		}
	}
	return out.String()
}
