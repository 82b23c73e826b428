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

// informerID identifies an informer: sources with the same informerID share one.
type informerID struct {
	end, namespace string
	gvk            schema.GroupVersionKind
	form           reflect.Type // of the prototype: typed and unstructured objects differ
	labels, fields string
	transform      *Transform
	pack           bool
}

// sharedInformer is an informer shared by kinds of pairs.
type sharedInformer struct {
	id       informerID
	informer *kube.Informer
	stop     context.CancelFunc
	log      logr.Logger
	// users is guarded by the engine's lock.
	users int

	mu        sync.Mutex
	listeners map[*listener]struct{}
	failing   bool
}

// acquireInformer returns the informer of a source and starts it if new. The caller holds the engine's lock.
func (e *Engine) acquireInformer(at *endpoint, namespace string, w watched) (*sharedInformer, error) {
	if w.ClusterScoped {
		namespace = ""
	}
	id := informerID{
		end: at.name, namespace: namespace, gvk: w.gvk, form: reflect.TypeOf(w.Object),
		labels: w.Labels, fields: w.Fields, transform: w.Transform, pack: w.Pack,
	}
	if f := e.informers[id]; f != nil {
		f.users++
		return f, nil
	}
	f := &sharedInformer{
		id:        id,
		users:     1,
		log:       e.options.Log.WithValues("side", at.name, "namespace", namespace, "watched", w.gvk.Kind),
		listeners: map[*listener]struct{}{},
	}
	var transform func(client.Object)
	if w.Transform != nil {
		transform = w.Transform.Apply
	}
	informer, err := kube.NewInformer(kube.InformerOptions{
		Cluster: at.cluster, Object: w.Object, Namespace: namespace, Labels: w.Labels, Fields: w.Fields,
		Optional: w.Optional, Transform: transform, Pack: w.Pack, Changed: f.handleChange, Broken: f.handleBroken, Recovered: f.handleRecovered,
	})
	if err != nil {
		return nil, err
	}
	f.informer = informer
	ctx, stop := context.WithCancel(e.ctx)
	f.stop = stop
	e.informers[id] = f
	e.background.Go(func() { informer.Run(ctx) })
	return f, nil
}

// releaseInformer releases an informer; the last release stops it. The caller holds the engine's lock.
func (e *Engine) releaseInformer(f *sharedInformer) {
	f.users--
	if f.users > 0 {
		return
	}
	f.stop()
	delete(e.informers, f.id)
}

// addListener adds a listener and passes the existing objects to it.
func (f *sharedInformer) addListener(l *listener) {
	f.mu.Lock()
	f.listeners[l] = struct{}{}
	f.mu.Unlock()
	for _, obj := range f.informer.List() {
		l.handleChange(nil, obj)
	}
}

func (f *sharedInformer) removeListener(l *listener) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.listeners, l)
}

func (f *sharedInformer) listenersNow() []*listener {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Collect(maps.Keys(f.listeners))
}

func (f *sharedInformer) handleChange(old, now client.Object) {
	for _, l := range f.listenersNow() {
		l.handleChange(old, now)
	}
}

// handleBroken logs the start of a watch failure, not its repetitions.
func (f *sharedInformer) handleBroken(err error) {
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
func (f *sharedInformer) handleRecovered() {
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
