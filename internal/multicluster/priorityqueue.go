// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package multicluster

// priorityQueues is the order in which the items of a kind get their turn: what changed in the peer goes before what is new here.
// A burst of new items would else keep for itself everything that the peer says of the first of them. It has no lock: the
// work queue calls it with its own.
type priorityQueues struct {
	urgent, other priorityQueue
	// isUrgent tells where an item belongs now.
	isUrgent func(itemKey) bool
	// passed counts the urgent items that went before others since the last of those.
	passed int
}

// priorityQueue is first in, first out.
type priorityQueue struct {
	items  []itemKey
	queued map[itemKey]struct{}
}

// fairness is how many urgent items may go before one of the others: a peer that changes something all the time must not
// stop what is new.
const fairness = 32

func newLanes(isUrgent func(itemKey) bool) *priorityQueues {
	return &priorityQueues{isUrgent: isUrgent, urgent: priorityQueue{queued: map[itemKey]struct{}{}}, other: priorityQueue{queued: map[itemKey]struct{}{}}}
}

// Push queues an item that is not queued.
func (l *priorityQueues) Push(item itemKey) {
	if l.isUrgent(item) {
		l.urgent.pushItem(item)
		return
	}
	l.other.pushItem(item)
}

// Touch is Push for an item that is queued: it may have become urgent.
func (l *priorityQueues) Touch(item itemKey) {
	if _, waits := l.other.queued[item]; waits && l.isUrgent(item) {
		l.other.removeItem(item)
		l.urgent.pushItem(item)
	}
}

// Len is the number of items that are queued.
func (l *priorityQueues) Len() int { return len(l.urgent.queued) + len(l.other.queued) }

// Pop takes the item whose turn it is. There must be one.
func (l *priorityQueues) Pop() itemKey {
	if len(l.other.queued) > 0 && (len(l.urgent.queued) == 0 || l.passed >= fairness) {
		l.passed = 0
		return l.other.popItem()
	}
	l.passed++
	return l.urgent.popItem()
}

func (l *priorityQueue) pushItem(item itemKey) {
	l.items = append(l.items, item)
	l.queued[item] = struct{}{}
}

// removeItem takes an item out. Its place stays, to be passed over.
func (l *priorityQueue) removeItem(item itemKey) {
	if delete(l.queued, item); len(l.queued) == 0 {
		l.items = nil
	}
}

func (l *priorityQueue) popItem() itemKey {
	for {
		item := l.items[0]
		l.items = l.items[1:]
		if _, waits := l.queued[item]; waits {
			delete(l.queued, item)
			return item
		}
	}
}
