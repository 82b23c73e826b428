// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"
)

// NamespacedWatch watches one kind in every namespace that matches a selector, and starts and stops watches as
// namespaces appear and disappear: the permission to read the kind can be granted per namespace. Added to a manager, a
// NamespacedWatch is an event source and a reader.
type NamespacedWatch struct {
	config     *rest.Config
	namespaces cache.Cache
	object     client.Object
	nsSelector labels.Selector
	selector   labels.Selector
	// Transform, if any, trims objects before they are cached. It must be set before the watch starts.
	Transform func(client.Object)

	wake     chan struct{}
	mu       sync.RWMutex
	running  map[string]*namespaceInformer
	handlers []boundHandler
}

type namespaceInformer struct {
	informer *Informer
	stop     context.CancelFunc
}

type boundHandler struct {
	ctx     context.Context
	handler handler.EventHandler
	queue   workqueue.TypedRateLimitingInterface[reconcile.Request]
}

// NewNamespacedWatch returns a watch of objects of the kind of obj matching objSelector, in the namespaces matching
// nsSelector. The namespaces are read from nsCache, usually the manager's cache. A nil selector matches all.
func NewNamespacedWatch(cfg *rest.Config, nsCache cache.Cache, obj client.Object, nsSelector, objSelector labels.Selector) *NamespacedWatch {
	return &NamespacedWatch{
		config:     cfg,
		namespaces: nsCache,
		object:     obj,
		nsSelector: orEverything(nsSelector),
		selector:   orEverything(objSelector),
		wake:       make(chan struct{}, 1),
		running:    map[string]*namespaceInformer{},
	}
}

func orEverything(s labels.Selector) labels.Selector {
	if s == nil {
		return labels.Everything()
	}
	return s
}

// NeedLeaderElection returns false: the caches fill before this replica leads.
func (w *NamespacedWatch) NeedLeaderElection() bool { return false }

// Start watches the namespaces until ctx ends.
func (w *NamespacedWatch) Start(ctx context.Context) error {
	cluster, err := NewCluster(w.config)
	if err != nil {
		return fmt.Errorf("connecting the watch of %T: %w", w.object, err)
	}
	informer, err := w.namespaces.GetInformer(ctx, &corev1.Namespace{})
	if err != nil {
		return fmt.Errorf("watching namespaces: %w", err)
	}
	registration, err := informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc:    func(any) { w.notifyChange() },
		UpdateFunc: func(any, any) { w.notifyChange() },
		DeleteFunc: func(any) { w.notifyChange() },
	})
	if err != nil {
		return fmt.Errorf("watching namespaces: %w", err)
	}
	defer func() { _ = informer.RemoveEventHandler(registration) }()

	var informers sync.WaitGroup
	defer informers.Wait()
	defer w.stopAll()
	w.notifyChange()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-w.wake:
			if err := w.followNamespaces(ctx, cluster, &informers); err != nil {
				log.FromContext(ctx).Error(err, "following namespaces failed", "type", fmt.Sprintf("%T", w.object))
			}
		}
	}
}

func (w *NamespacedWatch) notifyChange() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// followNamespaces starts and stops informers to have one for every selected namespace.
func (w *NamespacedWatch) followNamespaces(ctx context.Context, cluster Cluster, informers *sync.WaitGroup) error {
	var list corev1.NamespaceList
	if err := w.namespaces.List(ctx, &list, client.MatchingLabelsSelector{Selector: w.nsSelector}); err != nil {
		return fmt.Errorf("listing namespaces: %w", err)
	}
	wanted := map[string]bool{}
	var errs []error
	for i := range list.Items {
		name := list.Items[i].Name
		wanted[name] = true
		errs = append(errs, w.startInformer(ctx, cluster, name, informers))
	}
	for _, name := range w.startedNamespaces() {
		if !wanted[name] {
			w.stopInformer(name)
		}
	}
	return errors.Join(errs...)
}

func (w *NamespacedWatch) startInformer(ctx context.Context, cluster Cluster, namespace string, informers *sync.WaitGroup) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.running[namespace] != nil {
		return nil
	}
	informer, err := NewInformer(InformerOptions{
		Cluster:   cluster,
		Object:    w.object,
		Namespace: namespace,
		Labels:    w.selector.String(),
		Transform: w.Transform,
		Changed:   w.handleChange,
		Broken: func(err error) {
			log.FromContext(ctx).V(1).Info("watch ended", "namespace", namespace, "reason", err.Error())
		},
	})
	if err != nil {
		return fmt.Errorf("watching namespace %s: %w", namespace, err)
	}
	informerCtx, stop := context.WithCancel(ctx)
	w.running[namespace] = &namespaceInformer{informer: informer, stop: stop}
	informers.Go(func() { informer.Run(informerCtx) })
	return nil
}

// stopInformer stops the informer of a namespace, and sends delete events for its objects to the handlers.
func (w *NamespacedWatch) stopInformer(namespace string) {
	w.mu.Lock()
	entry := w.running[namespace]
	delete(w.running, namespace)
	w.mu.Unlock()
	if entry == nil {
		return
	}
	entry.stop()
	for _, obj := range entry.informer.List() {
		w.handleChange(obj, nil)
	}
}

func (w *NamespacedWatch) stopAll() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, entry := range w.running {
		entry.stop()
	}
	clear(w.running)
}

func (w *NamespacedWatch) startedNamespaces() []string {
	w.mu.RLock()
	defer w.mu.RUnlock()
	out := make([]string, 0, len(w.running))
	for name := range w.running {
		out = append(out, name)
	}
	return out
}

// handleChange dispatches a change to every registered handler.
func (w *NamespacedWatch) handleChange(old, now client.Object) {
	w.mu.RLock()
	handlers := w.handlers
	w.mu.RUnlock()
	for _, h := range handlers {
		switch {
		case old == nil:
			h.handler.Create(h.ctx, event.CreateEvent{Object: now}, h.queue)
		case now == nil:
			h.handler.Delete(h.ctx, event.DeleteEvent{Object: old}, h.queue)
		default:
			h.handler.Update(h.ctx, event.UpdateEvent{ObjectOld: old, ObjectNew: now}, h.queue)
		}
	}
}

// Source returns an event source of all watched objects, including existing ones. Handlers must not change the objects.
func (w *NamespacedWatch) Source(h handler.EventHandler) source.Source {
	return source.Func(func(ctx context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
		for _, obj := range w.bindHandler(boundHandler{ctx: ctx, handler: h, queue: queue}) {
			h.Create(ctx, event.CreateEvent{Object: obj, IsInInitialList: true}, queue)
		}
		return nil
	})
}

// bindHandler adds a handler and returns the objects that exist already.
func (w *NamespacedWatch) bindHandler(h boundHandler) []client.Object {
	w.mu.Lock()
	defer w.mu.Unlock()
	// The full slice expression forces a copy: handleChange may be iterating over the old slice.
	w.handlers = append(w.handlers[:len(w.handlers):len(w.handlers)], h)
	var missed []client.Object
	for _, entry := range w.running {
		missed = append(missed, entry.informer.List()...)
	}
	return missed
}

// Get reads an object from the cache. Get returns a Wait while the namespace has not synced, and NotFound for a
// namespace that is not watched.
func (w *NamespacedWatch) Get(ctx context.Context, key client.ObjectKey, into client.Object, _ ...client.GetOption) error {
	informer, err := w.informerOf(ctx, key.Namespace)
	if err != nil {
		return err
	}
	if informer != nil {
		if obj := informer.Get(key.Namespace, key.Name); obj != nil {
			return CopyObject(obj, into)
		}
	}
	return apierrors.NewNotFound(w.groupResource(), key.Name)
}

// List lists the cached objects of one namespace or of all, filtered by the label selector, if any. List returns a Wait
// while a selected namespace has not synced: a partial list must not be taken for a complete one.
func (w *NamespacedWatch) List(ctx context.Context, into client.ObjectList, opts ...client.ListOption) error {
	o := client.ListOptions{}
	o.ApplyOptions(opts)
	namespaces := []string{o.Namespace}
	if o.Namespace == "" {
		var list corev1.NamespaceList
		if err := w.namespaces.List(ctx, &list, client.MatchingLabelsSelector{Selector: w.nsSelector}); err != nil {
			return fmt.Errorf("listing namespaces: %w", err)
		}
		namespaces = nil
		for i := range list.Items {
			namespaces = append(namespaces, list.Items[i].Name)
		}
	}
	var out []runtime.Object
	for _, namespace := range namespaces {
		informer, err := w.informerOf(ctx, namespace)
		if err != nil {
			return err
		}
		if informer == nil {
			continue
		}
		for _, obj := range informer.List() {
			if o.LabelSelector == nil || o.LabelSelector.Matches(labels.Set(obj.GetLabels())) {
				out = append(out, obj.DeepCopyObject())
			}
		}
	}
	return meta.SetList(into, out)
}

// namespaceWait is the requeue delay for a namespace that has just been selected.
const namespaceWait = time.Second

// informerOf returns the synced informer of a namespace, nil if the namespace is not selected.
func (w *NamespacedWatch) informerOf(ctx context.Context, namespace string) (*Informer, error) {
	w.mu.RLock()
	entry := w.running[namespace]
	w.mu.RUnlock()
	if entry != nil {
		if !entry.informer.HasSynced() {
			return nil, Wait(namespaceWait, fmt.Sprintf("namespace %s is being read", namespace))
		}
		return entry.informer, nil
	}
	var ns corev1.Namespace
	if err := w.namespaces.Get(ctx, client.ObjectKey{Name: namespace}, &ns); err != nil {
		return nil, client.IgnoreNotFound(err)
	}
	if w.nsSelector.Matches(labels.Set(ns.Labels)) {
		return nil, Wait(namespaceWait, fmt.Sprintf("namespace %s is not watched yet", namespace))
	}
	return nil, nil
}

func (w *NamespacedWatch) groupResource() schema.GroupResource {
	gvk, err := apiutil.GVKForObject(w.object, Scheme)
	if err != nil {
		return schema.GroupResource{}
	}
	plural, _ := meta.UnsafeGuessKindToResource(gvk)
	return plural.GroupResource()
}
