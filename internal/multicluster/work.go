// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package multicluster

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"runtime/debug"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"

	"liqo.io/liqo/internal/kube"
)

// kindState is a Kind with its queue, shared by all pairs.
type kindState struct {
	Kind
	local, remote []watched
	queue         workqueue.TypedRateLimitingInterface[itemKey]
	metrics       *kindMetrics

	mu      sync.Mutex
	since   map[itemKey]time.Time // time of the oldest unapplied change, also during waits
	urgent  map[itemKey]struct{}  // items changed in the remote cluster until handled, and items in a short wait
	failing map[itemKey]struct{}
	refused map[itemKey]string // the reported reason of items that only the user can fix, until they succeed
}

type itemKey struct {
	pair Pair
	name string
}

// retryBase and retryCap limit the backoff of one item. Items share no other limit.
const (
	retryBase = 100 * time.Millisecond
	retryCap  = time.Minute
)

func newKind(k Kind, peer string) *kindState {
	k.Workers = cmp.Or(k.Workers, defaultWorkers)
	out := &kindState{
		Kind:    k,
		metrics: newKindMetrics(k.Name, peer),
		since:   map[itemKey]time.Time{},
		urgent:  map[itemKey]struct{}{},
		failing: map[itemKey]struct{}{},
		refused: map[itemKey]string{},
	}
	queue := workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[itemKey]{Queue: newLanes(out.isUrgent)})
	out.queue = workqueue.NewTypedRateLimitingQueueWithConfig(
		workqueue.NewTypedItemExponentialFailureRateLimiter[itemKey](retryBase, retryCap),
		workqueue.TypedRateLimitingQueueConfig[itemKey]{
			DelayingQueue: workqueue.NewTypedDelayingQueueWithConfig(workqueue.TypedDelayingQueueConfig[itemKey]{Queue: queue}),
		})
	return out
}

// addItem queues an item with the time of its change and the priority.
func (k *kindState) addItem(key itemKey, urgent bool) {
	k.mu.Lock()
	if _, ok := k.since[key]; !ok {
		k.since[key] = time.Now()
	}
	if urgent {
		k.urgent[key] = struct{}{}
	}
	k.mu.Unlock()
	k.queue.Add(key)
}

func (k *kindState) isUrgent(key itemKey) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	_, is := k.urgent[key]
	return is
}

// retryPair retries the failing items of a pair at once and resets their backoff.
func (k *kindState) retryPair(pair Pair) {
	k.mu.Lock()
	var keys []itemKey
	for key := range k.failing {
		if key.pair == pair {
			keys = append(keys, key)
		}
	}
	k.mu.Unlock()
	for _, key := range keys {
		k.queue.Forget(key)
		k.queue.Add(key)
	}
}

// runWorker handles items until the queue is shut down.
func (e *Engine) runWorker(k *kindState) {
	for {
		key, down := k.queue.Get()
		if down {
			return
		}
		e.handleItem(k, key)
		k.queue.Done(key)
	}
}

func (e *Engine) handleItem(k *kindState, key itemKey) {
	pk := e.findPair(k.Name, key.pair)
	if pk == nil {
		k.dropItem(key)
		return
	}
	if !pk.isReady() {
		// The pair was restarted after the item was queued
		k.dropItem(key)
		pk.enqueue(key.name, false)
		return
	}
	started, urgent := k.startOf(key)
	it := &Item{
		Pair:   key.pair,
		Name:   key.name,
		Local:  e.newSide(pk, e.local, key.pair.Local, pk.local),
		Remote: e.newSide(pk, e.remote, key.pair.Remote, pk.remote),
	}
	log := logr.FromContextOrDiscard(pk.ctx).WithValues("name", key.name)
	err := recoverPanic(k.Sync, kube.WithOrigin(logr.NewContext(pk.ctx, log), pk.originOf(key)), it)
	if pk.ctx.Err() != nil {
		k.dropItem(key)
		return
	}
	if e.options.Handled != nil {
		e.options.Handled(key.pair, k.Name, err)
	}
	k.settleItem(log, pk, it, started, urgent, err)
}

// originOf returns the UID of the local object of an item, "" if it does not exist.
func (pk *pairKind) originOf(key itemKey) types.UID {
	for _, a := range pk.local {
		if obj := a.shared.informer.Get(key.pair.Local, key.name); obj != nil {
			return obj.GetUID()
		}
	}
	return ""
}

// recoverPanic converts a panic into an error: one malformed object of a peer must not stop all work.
func recoverPanic(sync func(context.Context, *Item) error, ctx context.Context, it *Item) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("panic: %v\n%s", r, debug.Stack())
		}
	}()
	return sync(ctx, it)
}

// settleItem schedules the next attempt according to the error of the last.
func (k *kindState) settleItem(log logr.Logger, pk *pairKind, it *Item, started time.Time, urgent bool, err error) {
	key := itemKey{pair: it.Pair, name: it.Name}
	k.metrics.items.Inc()
	outcome := kube.Classify(err)
	if outcome.Failed() {
		k.metrics.errors.Inc()
		k.markFailing(key, started)
		if pk.isOutage() {
			log.V(1).Info("failed during an outage", "reason", err.Error())
		} else {
			log.Error(err, "failed, trying again")
		}
		if urgent {
			k.prioritizeItem(key)
		}
		k.queue.AddRateLimited(key)
		return
	}
	k.forgetItem(key)
	switch {
	case outcome.Invalid():
		detail := kube.Problem(err).Error()
		if k.refuseItem(pk, key, detail) {
			log.Info("not acceptable", "reason", outcome.Reason, "detail", detail)
		} else {
			log.V(1).Info("still not acceptable", "reason", outcome.Reason, "detail", detail)
		}
	case err != nil || it.after > 0:
		log.V(1).Info("nothing changed", "reason", outcome.Reason)
		k.requeueItem(pk, key, started)
	default:
		k.acceptItem(key)
		k.metrics.lag.Observe(time.Since(started).Seconds())
	}
	if outcome.After > 0 {
		it.RequeueAfter(outcome.After)
	}
	if it.after > 0 {
		k.prioritizeItem(key)
		k.queue.AddAfter(key, it.after)
	}
}

// isOutage reports whether the watch of a cluster fails at present: failures of items are expected.
func (pk *pairKind) isOutage() bool {
	for _, sources := range [][]attached{pk.local, pk.remote} {
		for _, a := range sources {
			if a.shared.informer.Err() != nil {
				return true
			}
		}
	}
	return false
}

// startOf returns the time of the item's first change and its priority, and resets both: later changes count as new.
func (k *kindState) startOf(key itemKey) (started time.Time, urgent bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	_, urgent = k.urgent[key]
	delete(k.urgent, key)
	started, ok := k.since[key]
	if !ok {
		return time.Now(), urgent
	}
	delete(k.since, key)
	return started, urgent
}

// prioritizeItem gives an item high priority for its next attempt: after a short wait, or after a failure with high priority.
func (k *kindState) prioritizeItem(key itemKey) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.urgent[key] = struct{}{}
}

// requeueItem keeps the time of the change of a waiting item, for its lag. For a stopped pair the entry would leak.
func (k *kindState) requeueItem(pk *pairKind, key itemKey, started time.Time) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if pk.ctx.Err() == nil {
		k.since[key] = started
	}
}

// leavePair deletes the change times and reported reasons of a stopped pair. Its queued items are dropped when dequeued.
func (k *kindState) leavePair(pair Pair) {
	k.mu.Lock()
	defer k.mu.Unlock()
	maps.DeleteFunc(k.since, func(key itemKey, _ time.Time) bool { return key.pair == pair })
	maps.DeleteFunc(k.refused, func(key itemKey, _ string) bool { return key.pair == pair })
}

// refuseItem stores the problem of an item and reports whether it is new. For a stopped pair the entry would leak.
func (k *kindState) refuseItem(pk *pairKind, key itemKey, detail string) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	reported, known := k.refused[key]
	if pk.ctx.Err() == nil {
		k.refused[key] = detail
	}
	return !known || reported != detail
}

// acceptItem deletes the stored problem of an item.
func (k *kindState) acceptItem(key itemKey) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.refused, key)
}

// markFailing keeps the time of a change that could not be applied.
func (k *kindState) markFailing(key itemKey, started time.Time) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.failing[key] = struct{}{}
	k.since[key] = started
}

func (k *kindState) forgetItem(key itemKey) {
	k.queue.Forget(key)
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.failing, key)
}

// dropItem deletes all state of an item of a stopped pair.
func (k *kindState) dropItem(key itemKey) {
	k.forgetItem(key)
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.since, key)
	delete(k.urgent, key)
	delete(k.refused, key)
}
