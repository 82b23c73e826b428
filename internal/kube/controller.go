// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

// Package kube contains the reconcile loop of all controllers, and the tools to read and write objects: one scheme,
// server-side apply of a wanted state, three classes of errors, and manager defaults.
//
// A controller implements Syncer and, if needed, Cleaner, Reporter, EventReplayer, StatusCopier and Rescheduler. The loop is
// always: read; if the object is being deleted, Cleanup and remove the finalizer; add the finalizer before the first effect;
// Sync; Report; one write of the status, only if changed; record the new events.
package kube

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// Syncer reconciles the actual state with obj: read, decide, apply. Sync may edit the status of obj in memory and never
// writes the status.
type Syncer[T client.Object] interface {
	Sync(ctx context.Context, obj T) error
}

// Cleaner reverts the effects of Sync before obj is deleted. Cleanup returns Wait while effects remain, and requires
// Options.Finalizer.
type Cleaner[T client.Object] interface {
	Cleanup(ctx context.Context, obj T) error
}

// Reporter sets the conditions of obj in memory, from the error of Sync or Cleanup, and returns the resulting events.
// Without a Reporter an Invalid error becomes a warning event.
type Reporter[T client.Object] interface {
	Report(obj T, err error) []Event
}

// EventReplayer returns the events that correspond to the stored status of obj, without changing obj. A new process does not
// record normal events again, but does record warnings: Kubernetes drops events after an hour.
type EventReplayer[T client.Object] interface {
	ReplayEvents(obj T) []Event
}

// StatusCopier returns a reduced copy of obj for the update of its status: metadata and status, while the API server takes the
// rest from the stored object. StatusCopier is for large objects of extension API servers with a status written only by Liqo: the
// status is written by an update. For a patch the API server would encode and decode the whole object.
type StatusCopier[T client.Object] interface {
	CopyForStatus(obj T) T
}

// Rescheduler returns the delay to the next pass over an object that was synced without error; 0 is never.
type Rescheduler[T client.Object] interface {
	Next(obj T) time.Duration
}

// Options configure a Controller.
type Options struct {
	// Name of the controller, unique in the process.
	Name string
	// Finalizer ensures that Cleaner runs before a deletion; empty for none.
	Finalizer string
	// NeedsFinalizer reports whether an object needs the finalizer; nil for all. An existing finalizer stays until
	// Cleanup.
	NeedsFinalizer func(client.Object) bool
	// Workers is the number of concurrent reconciles; 0 is 1.
	Workers int
	// Group returns the fair-queuing group of a request: groups are served round-robin. nil serves requests in FIFO
	// order.
	Group func(reconcile.Request) string
}

// Controller runs the reconcile loop of one kind.
type Controller[T client.Object] struct {
	mgr     ctrl.Manager
	client  client.Client
	options Options
	syncer  Syncer[T]
	events  *EventRecorder // by types.NamespacedName
	// released maps objects to the UID whose finalizer was removed, until the cache shows the deletion. Cleanup must
	// not run again for an object in a stale cache: resources that Cleanup acquires anew would never be released.
	released Table[types.NamespacedName, types.UID]
	// withFinalizer caches the objects that were synced with the finalizer, as last read.
	withFinalizer Table[types.NamespacedName, T]
}

// NewController returns the controller of one kind. Builder and Complete register the controller.
func NewController[T client.Object](mgr ctrl.Manager, o Options, s Syncer[T]) *Controller[T] {
	return &Controller[T]{
		mgr:     mgr,
		client:  mgr.GetClient(),
		events:  NewEventRecorder(EmitBy(mgr.GetEventRecorder("liqo-"+o.Name), "Sync")),
		options: o,
		syncer:  s,
	}
}

// Builder starts the registration: add Owns and Watches to the returned builder, then call Complete.
func (c *Controller[T]) Builder(preds ...predicate.Predicate) *builder.Builder {
	return ctrl.NewControllerManagedBy(c.mgr).
		Named(c.options.Name).
		For(newObject[T](), builder.WithPredicates(preds...))
}

// retryBase and retryCap bound the exponential backoff of a failing object. No rate limit is shared by all objects: an
// unreachable peer must not slow down the others.
const (
	retryBase = 50 * time.Millisecond
	retryCap  = time.Minute
)

// RateLimiter returns the rate limiter with this backoff, also for controllers with their own loop.
func RateLimiter() workqueue.TypedRateLimiter[reconcile.Request] {
	return workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](retryBase, retryCap)
}

// Complete registers the controller with its manager.
func (c *Controller[T]) Complete(b *builder.Builder) error {
	options := controller.Options{
		MaxConcurrentReconciles: max(c.options.Workers, 1),
		RateLimiter:             RateLimiter(),
	}
	if c.options.Group != nil {
		options.NewQueue = fairWorkQueue(c.options.Group)
	}
	if err := b.WithOptions(options).Complete(c); err != nil {
		return fmt.Errorf("registering controller %s: %w", c.options.Name, err)
	}
	return nil
}

func newObject[T client.Object]() T {
	return reflect.New(reflect.TypeFor[T]().Elem()).Interface().(T)
}

// Reconcile runs one pass of the loop.
func (c *Controller[T]) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	obj := newObject[T]()
	if err := c.client.Get(ctx, req.NamespacedName, obj); err != nil {
		if client.IgnoreNotFound(err) == nil {
			c.events.Forget(req.NamespacedName)
			c.released.Drop(req.NamespacedName)
			return c.cleanupGone(ctx, req.NamespacedName)
		}
		return reconcile.Result{}, fmt.Errorf("reading the object: %w", err)
	}
	ctx = WithOrigin(ctx, obj.GetUID())
	if obj.GetDeletionTimestamp().IsZero() {
		return c.syncObject(ctx, obj)
	}
	return c.cleanupObject(ctx, obj)
}

func (c *Controller[T]) syncObject(ctx context.Context, obj T) (reconcile.Result, error) {
	if c.needsFinalizer(obj) && controllerutil.AddFinalizer(obj, c.options.Finalizer) {
		if err := c.patchFinalizers(ctx, obj); err != nil {
			return c.resultOf(ctx, obj, err)
		}
	}
	if replayer, ok := c.syncer.(EventReplayer[T]); ok {
		well := slices.DeleteFunc(replayer.ReplayEvents(obj), func(e Event) bool { return e.Type != corev1.EventTypeNormal })
		c.events.Restore(client.ObjectKeyFromObject(obj), well)
	}
	if _, ok := c.syncer.(Cleaner[T]); ok && c.options.Finalizer != "" && controllerutil.ContainsFinalizer(obj, c.options.Finalizer) {
		c.withFinalizer.Put(client.ObjectKeyFromObject(obj), obj)
	}
	before := obj.DeepCopyObject().(T)
	err := c.syncer.Sync(ctx, obj)
	return c.patchChanges(ctx, before, obj, err)
}

func (c *Controller[T]) cleanupObject(ctx context.Context, obj T) (reconcile.Result, error) {
	key := client.ObjectKeyFromObject(obj)
	if c.options.Finalizer == "" || !controllerutil.ContainsFinalizer(obj, c.options.Finalizer) {
		return reconcile.Result{}, nil
	}
	if uid, ok := c.released.Get(key); ok && uid == obj.GetUID() {
		return reconcile.Result{}, nil
	}
	if cleaner, ok := c.syncer.(Cleaner[T]); ok {
		before := obj.DeepCopyObject().(T)
		if err := cleaner.Cleanup(ctx, obj); err != nil {
			return c.patchChanges(ctx, before, obj, err)
		}
	}
	controllerutil.RemoveFinalizer(obj, c.options.Finalizer)
	err := c.patchFinalizers(ctx, obj)
	if err == nil {
		c.released.Put(key, obj.GetUID())
		c.withFinalizer.Drop(key)
	}
	return c.resultOf(ctx, obj, err)
}

// cleanupGone runs Cleanup for an object that was deleted despite the finalizer. An API server that receives a deletion
// while the first finalizer is being written accepts the finalizer and still deletes the object; and users remove
// finalizers by hand.
func (c *Controller[T]) cleanupGone(ctx context.Context, key types.NamespacedName) (reconcile.Result, error) {
	obj, ok := c.withFinalizer.Get(key)
	if !ok {
		return reconcile.Result{}, nil
	}
	// A cache with a selector also drops objects that no longer match.
	if err := c.mgr.GetAPIReader().Get(ctx, key, newObject[T]()); client.IgnoreNotFound(err) != nil {
		return reconcile.Result{}, fmt.Errorf("looking whether the object is gone: %w", err)
	} else if err == nil {
		return reconcile.Result{}, nil
	}
	if obj.GetDeletionTimestamp().IsZero() {
		obj.SetDeletionTimestamp(new(metav1.Now()))
	}
	if err := c.syncer.(Cleaner[T]).Cleanup(ctx, obj); err != nil {
		return c.resultOf(ctx, obj, err)
	}
	c.withFinalizer.Drop(key)
	return reconcile.Result{}, nil
}

func (c *Controller[T]) needsFinalizer(obj T) bool {
	return c.options.Finalizer != "" && (c.options.NeedsFinalizer == nil || c.options.NeedsFinalizer(obj))
}

// patchChanges reports the error, writes the status if it changed, and records the events only after the write.
func (c *Controller[T]) patchChanges(ctx context.Context, before, obj T, err error) (reconcile.Result, error) {
	report := append(c.reportError(obj, err), conflictEvents(err)...)
	if patchErr := c.writeStatus(ctx, before, obj); patchErr != nil {
		if conflicts := conflictEvents(patchErr); len(conflicts) > 0 {
			c.recordEvents(obj, conflicts)
		}
		if Classify(err).Failed() {
			return c.resultOf(ctx, obj, err)
		}
		return c.resultOf(ctx, obj, patchErr)
	}
	c.recordEvents(obj, report)
	return c.resultOf(ctx, obj, err)
}

// recordEvents records the new events; an empty list clears the record of the object.
func (c *Controller[T]) recordEvents(obj T, events []Event) {
	c.events.RecordAbout(client.ObjectKeyFromObject(obj), obj, events...)
}

func (c *Controller[T]) reportError(obj T, err error) []Event {
	if reporter, ok := c.syncer.(Reporter[T]); ok {
		return reporter.Report(obj, err)
	}
	return Warnings(err)
}

// resultOf converts the error of an attempt to the result for the work queue.
func (c *Controller[T]) resultOf(ctx context.Context, obj T, err error) (reconcile.Result, error) {
	if err == nil {
		if next, ok := c.syncer.(Rescheduler[T]); ok && obj.GetDeletionTimestamp().IsZero() {
			return reconcile.Result{RequeueAfter: max(next.Next(obj), 0)}, nil
		}
		return reconcile.Result{}, nil
	}
	if errors.Is(err, errGone) {
		return reconcile.Result{}, nil
	}
	result := Classify(err)
	switch {
	case result.Failed():
		return reconcile.Result{}, err
	case result.Invalid():
		log.FromContext(ctx).V(1).Info("not acceptable", "reason", result.Reason, "detail", err.Error())
	default:
		log.FromContext(ctx).V(1).Info("nothing changed", "reason", result.Reason)
	}
	return reconcile.Result{RequeueAfter: result.After}, nil
}

// Table is a map that is safe for concurrent use. The zero value is ready for use.
type Table[K comparable, V any] struct {
	mu sync.Mutex
	of map[K]V
}

// Put stores the value of a key.
func (t *Table[K, V]) Put(key K, value V) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.of == nil {
		t.of = map[K]V{}
	}
	t.of[key] = value
}

// Get returns the value of a key, and false if the key is absent.
func (t *Table[K, V]) Get(key K) (V, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	value, ok := t.of[key]
	return value, ok
}

// Drop deletes a key.
func (t *Table[K, V]) Drop(key K) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.of, key)
}
