// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package multicluster

import (
	"context"
	"sync"
)

// pairKind is one kind of one pair, with informers and parked items.
type pairKind struct {
	kind          *kindState
	pair          Pair
	ctx           context.Context
	local, remote []attached

	mu      sync.Mutex
	ready   bool
	refused bool
	// parked maps each parked item to its priority: true is high.
	parked map[string]bool
}

// attached is a source in one cluster with its informer.
type attached struct {
	watched
	shared   *sharedInformer
	listener *listener
}

// enqueue queues an item, or parks the item until both caches are synced. Urgent items, changed in the remote cluster, have high priority.
// Before the sync all remote items are new, and none is urgent.
func (pk *pairKind) enqueue(name string, urgent bool) { pk.addOrPark(name, urgent, false) }

// enqueueFirst is enqueue for an item with high priority even while parked.
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

// unparkItems queues the parked items. It returns false if the pair was stopped or the kind is refused.
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

// dropItems discards the parked items when the pair is stopped.
func (pk *pairKind) dropItems() {
	pk.mu.Lock()
	defer pk.mu.Unlock()
	pk.clearItems()
}

func (pk *pairKind) clearItems() {
	pk.kind.metrics.parked.Sub(float64(len(pk.parked)))
	clear(pk.parked)
}

// refuseItems keeps a kind parked whose caches can never sync.
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

// retryItems retries the failing items of this pair at once.
func (pk *pairKind) retryItems() { pk.kind.retryPair(pk.pair) }
