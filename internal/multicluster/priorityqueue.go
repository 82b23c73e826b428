// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package multicluster

// priorityQueues orders the items of a kind: changes in the remote cluster precede new local items. Otherwise a burst of new items would delay
// all status changes of the first of them. priorityQueues needs no lock: the work queue calls it under a lock.
type priorityQueues struct {
	urgent, other priorityQueue
	// isUrgent reports whether an item has high priority at present.
	isUrgent func(itemKey) bool
	// passed counts the urgent items handled since the last other item.
	passed int
}

// priorityQueue is a FIFO queue.
type priorityQueue struct {
	items  []itemKey
	queued map[itemKey]struct{}
}

// fairness is the number of urgent items per other item: a peer with constant changes must not starve new local items.
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

// Touch updates the priority of a queued item.
func (l *priorityQueues) Touch(item itemKey) {
	if _, waits := l.other.queued[item]; waits && l.isUrgent(item) {
		l.other.removeItem(item)
		l.urgent.pushItem(item)
	}
}

// Len returns the number of queued items.
func (l *priorityQueues) Len() int { return len(l.urgent.queued) + len(l.other.queued) }

// Pop removes and returns the next item. The queue must not be empty.
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

// removeItem removes an item. Its place in the slice remains and is skipped.
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
