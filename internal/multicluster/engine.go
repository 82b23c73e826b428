// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package multicluster

import (
	"context"
	"slices"
	"sync"

	"github.com/go-logr/logr"
)

// Engine copies objects between two clusters. Its methods are safe for concurrent use, also from within a Sync.
type Engine struct {
	options       Options
	local, remote *endpoint
	kinds         map[string]*kindState
	order         []string // names of the kinds in the order of Options
	background    sync.WaitGroup

	mu        sync.Mutex
	ctx       context.Context // of Run; nil before
	wanted    []Pair          // pairs passed to Set before Run
	pairs     map[Pair]*pairRun
	informers map[informerID]*sharedInformer
}

// pairRun is a running pair.
type pairRun struct {
	pair  Pair
	ctx   context.Context
	stop  context.CancelFunc
	kinds map[string]*pairKind
}

// Set sets the complete list of pairs: new pairs are started and missing pairs stopped. Stopping a pair deletes no objects in either cluster.
func (e *Engine) Set(pairs []Pair) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.ctx == nil {
		e.wanted = slices.Clone(pairs)
		return
	}
	e.setPairs(pairs)
}

// setPairs reconciles the running pairs with the wanted ones. The caller holds the lock.
func (e *Engine) setPairs(pairs []Pair) {
	if e.ctx.Err() != nil {
		return
	}
	// New pairs start first: informers shared with stopped pairs keep running.
	for _, pair := range pairs {
		if e.pairs[pair] == nil {
			e.startPair(pair)
		}
	}
	for pair, run := range e.pairs {
		if !slices.Contains(pairs, pair) {
			e.stopPair(run)
		}
	}
}

func (e *Engine) startPair(pair Pair) {
	ctx, stop := context.WithCancel(e.ctx)
	run := &pairRun{pair: pair, ctx: ctx, stop: stop, kinds: map[string]*pairKind{}}
	e.pairs[pair] = run
	for _, name := range e.order {
		pk := &pairKind{
			kind:   e.kinds[name],
			pair:   pair,
			ctx:    logr.NewContext(ctx, e.options.Log.WithValues("kind", name, "namespace", pair.Local, "remoteNamespace", pair.Remote)),
			parked: map[string]bool{},
		}
		run.kinds[name] = pk
		e.attachInformers(pk, e.local, pair.Local, pk.kind.local, &pk.local)
		e.attachInformers(pk, e.remote, pair.Remote, pk.kind.remote, &pk.remote)
		e.background.Go(func() { e.beginPair(pk) })
	}
}

// attachInformers attaches a kind of a pair to the informers of one cluster.
func (e *Engine) attachInformers(pk *pairKind, at *endpoint, namespace string, sources []watched, into *[]attached) {
	for _, w := range sources {
		informer, err := e.acquireInformer(at, namespace, w)
		if err != nil {
			// New validates every prototype; if it misses an error, this kind stays parked and logs the reason.
			e.options.Log.Error(err, "watching failed", "kind", pk.kind.Name, "namespace", namespace)
			pk.refuseItems()
			return
		}
		l := newListener(w.Source, func(name string) { pk.enqueue(name, at == e.remote) }, pk.retryItems)
		*into = append(*into, attached{watched: w, shared: informer, listener: l})
		informer.addListener(l)
	}
}

// beginPair starts the work on a kind of a pair once the caches of both clusters are synced.
func (e *Engine) beginPair(pk *pairKind) {
	for _, a := range slices.Concat(pk.local, pk.remote) {
		select {
		case <-a.shared.informer.Synced():
		case <-pk.ctx.Done():
			return
		}
	}
	if !pk.unparkItems() {
		return
	}
	if e.options.Started != nil {
		e.options.Started(pk.pair, pk.kind.Name)
	}
}

func (e *Engine) stopPair(run *pairRun) {
	run.stop()
	delete(e.pairs, run.pair)
	for _, pk := range run.kinds {
		for _, a := range slices.Concat(pk.local, pk.remote) {
			a.shared.removeListener(a.listener)
			e.releaseInformer(a.shared)
		}
		pk.dropItems()
		pk.kind.leavePair(run.pair)
	}
}

// Enqueue requests a Sync of one item for reasons invisible to the engine. Items of unknown pairs and kinds are ignored.
func (e *Engine) Enqueue(kind string, pair Pair, name string) {
	if pk := e.findPair(kind, pair); pk != nil {
		pk.enqueue(name, false)
	}
}

// EnqueueFirst is Enqueue with high priority.
func (e *Engine) EnqueueFirst(kind string, pair Pair, name string) {
	if pk := e.findPair(kind, pair); pk != nil {
		pk.enqueueFirst(name)
	}
}

// Synced reports whether the caches of both clusters are synced for the kinds of a pair, or for all kinds if none is named.
func (e *Engine) Synced(pair Pair, kinds ...string) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	run := e.pairs[pair]
	if run == nil {
		return false
	}
	for name, pk := range run.kinds {
		if (len(kinds) == 0 || slices.Contains(kinds, name)) && !pk.isReady() {
			return false
		}
	}
	return true
}

// findPair returns a kind of a pair, nil if the pair is not running.
func (e *Engine) findPair(kind string, pair Pair) *pairKind {
	e.mu.Lock()
	defer e.mu.Unlock()
	if run := e.pairs[pair]; run != nil {
		return run.kinds[kind]
	}
	return nil
}

// Run runs the pairs until ctx ends, and returns when all work has stopped. It must be called once only.
func (e *Engine) Run(ctx context.Context) error {
	e.mu.Lock()
	e.ctx = ctx
	e.setPairs(e.wanted)
	e.mu.Unlock()
	for _, name := range e.order {
		k := e.kinds[name]
		for range k.Workers {
			e.background.Go(func() { e.runWorker(k) })
		}
	}
	<-ctx.Done()
	e.mu.Lock()
	for _, run := range e.pairs {
		e.stopPair(run)
	}
	e.mu.Unlock()
	for _, k := range e.kinds {
		k.queue.ShutDown()
	}
	e.background.Wait()
	for _, k := range e.kinds {
		k.metrics.closeMetrics()
	}
	return nil
}
