// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package multicluster

import (
	"context"
	"sync"
)

// pairKind is one kind of one pair: its feeds, and the items that wait for them.
type pairKind struct {
	kind          *kindState
	pair          Pair
	ctx           context.Context
	local, remote []attached

	mu      sync.Mutex
	ready   bool
	refused bool
	// parked says of each item that waits whether it is to be handled before others.
	parked map[string]bool
}

// attached is a source of one side with the feed that serves it.
type attached struct {
	watched
	shared   *sharedFeed
	listener *listener
}

// enqueue queues an item, or parks it until both sides are known. What is urgent, because it changed in the peer, gets its
// turn first. Before both sides are known all items of the peer are new, and none is urgent for that.
func (pk *pairKind) enqueue(name string, urgent bool) { pk.addOrPark(name, urgent, false) }

// enqueueFirst is enqueue for an item that stays urgent while it is parked.
func (pk *pairKind) enqueueFirst(name string) { pk.addOrPark(name, true, true) }

func (pk *pairKind) addOrPark(name string, urgent, parkedFirst bool) {
	pk.mu.Lock()
	defer pk.mu.Unlock()
	if pk.ctx.Err() != nil {
		return
	}
	if pk.ready {
		pk.kind.addItem(itemKey{pair: pk.pair, name: name}, urgent)
		return
	}
	first, ok := pk.parked[name]
	if !ok {
		pk.kind.metrics.parked.Inc()
	}
	pk.parked[name] = first || parkedFirst
}

// unparkItems queues what was parked. It is false when there is nothing to begin: the pair was stopped meanwhile.
func (pk *pairKind) unparkItems() bool {
	pk.mu.Lock()
	defer pk.mu.Unlock()
	if pk.ctx.Err() != nil || pk.refused {
		return false
	}
	pk.ready = true
	for name, first := range pk.parked {
		pk.kind.addItem(itemKey{pair: pk.pair, name: name}, first)
	}
	pk.clearItems()
	return true
}

// dropItems forgets what was parked, when the pair is stopped.
func (pk *pairKind) dropItems() {
	pk.mu.Lock()
	defer pk.mu.Unlock()
	pk.clearItems()
}

func (pk *pairKind) clearItems() {
	pk.kind.metrics.parked.Sub(float64(len(pk.parked)))
	clear(pk.parked)
}

// refuseItems keeps a kind parked that can never know both its sides.
func (pk *pairKind) refuseItems() {
	pk.mu.Lock()
	defer pk.mu.Unlock()
	pk.refused = true
}

func (pk *pairKind) isReady() bool {
	pk.mu.Lock()
	defer pk.mu.Unlock()
	return pk.ready
}

// retryItems lets the failing items of this pair try again at once.
func (pk *pairKind) retryItems() { pk.kind.retryPair(pk.pair) }
