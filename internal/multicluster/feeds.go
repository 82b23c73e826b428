// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package multicluster

import (
	"context"
	"errors"
	"io"
	"maps"
	"reflect"
	"slices"
	"sync"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/internal/kube"
)

// feedID identifies an informer: sources with the same feedID share one.
type feedID struct {
	end, namespace string
	gvk            schema.GroupVersionKind
	form           reflect.Type // of the prototype: typed and unstructured objects differ
	labels, fields string
	transform      *Transform
	pack           bool
}

// sharedFeed is an informer shared by kinds of pairs.
type sharedFeed struct {
	id   feedID
	feed *kube.Feed
	stop context.CancelFunc
	log  logr.Logger
	// users is guarded by the engine's lock.
	users int

	mu        sync.Mutex
	listeners map[*listener]struct{}
	failing   bool
}

// acquireFeed returns the informer of a source and starts it if new. The caller holds the engine's lock.
func (e *Engine) acquireFeed(at *endpoint, namespace string, w watched) (*sharedFeed, error) {
	id := feedID{
		end: at.name, namespace: namespace, gvk: w.gvk, form: reflect.TypeOf(w.Object),
		labels: w.Labels, fields: w.Fields, transform: w.Transform, pack: w.Pack,
	}
	if f := e.feeds[id]; f != nil {
		f.users++
		return f, nil
	}
	f := &sharedFeed{
		id:        id,
		users:     1,
		log:       e.options.Log.WithValues("side", at.name, "namespace", namespace, "watched", w.gvk.Kind),
		listeners: map[*listener]struct{}{},
	}
	var transform func(client.Object)
	if w.Transform != nil {
		transform = w.Transform.Apply
	}
	feed, err := kube.NewFeed(kube.FeedOptions{
		Cluster: at.cluster, Object: w.Object, Namespace: namespace, Labels: w.Labels, Fields: w.Fields,
		Optional: w.Optional, Transform: transform, Pack: w.Pack, Changed: f.handleChange, Broken: f.handleBroken, Recovered: f.handleRecovered,
	})
	if err != nil {
		return nil, err
	}
	f.feed = feed
	ctx, stop := context.WithCancel(e.ctx)
	f.stop = stop
	e.feeds[id] = f
	e.background.Go(func() { feed.Run(ctx) })
	return f, nil
}

// releaseFeed releases an informer; the last release stops it. The caller holds the engine's lock.
func (e *Engine) releaseFeed(f *sharedFeed) {
	f.users--
	if f.users > 0 {
		return
	}
	f.stop()
	delete(e.feeds, f.id)
}

// addListener adds a listener and passes the existing objects to it.
func (f *sharedFeed) addListener(l *listener) {
	f.mu.Lock()
	f.listeners[l] = struct{}{}
	f.mu.Unlock()
	for _, obj := range f.feed.List() {
		l.handleChange(nil, obj)
	}
}

func (f *sharedFeed) removeListener(l *listener) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.listeners, l)
}

func (f *sharedFeed) listenersNow() []*listener {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Collect(maps.Keys(f.listeners))
}

func (f *sharedFeed) handleChange(old, now client.Object) {
	for _, l := range f.listenersNow() {
		l.handleChange(old, now)
	}
}

// handleBroken logs the start of a watch failure, not its repetitions.
func (f *sharedFeed) handleBroken(err error) {
	f.mu.Lock()
	first := !f.failing && !errors.Is(err, io.EOF)
	f.failing = f.failing || first
	f.mu.Unlock()
	if first {
		f.log.Info("cannot follow", "reason", err.Error())
		return
	}
	f.log.V(1).Info("watch ended", "reason", err.Error())
}

// handleRecovered retries the failing items at once.
func (f *sharedFeed) handleRecovered() {
	f.mu.Lock()
	was := f.failing
	f.failing = false
	f.mu.Unlock()
	if was {
		f.log.Info("following again")
	}
	for _, l := range f.listenersNow() {
		l.retry()
	}
}
