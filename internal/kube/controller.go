// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

// Package kube owns the loop that every controller runs, and what controllers need to read and write objects: one
// scheme, one way to apply what is wanted, three kinds of error, manager defaults.
//
// A controller implements Syncer, and where it needs them Cleaner, Reporter, Recaller, Bearer and Rescheduler. The loop is always:
// read; if being deleted, Cleanup and drop the finalizer; add the finalizer before the first effect; Sync; Report;
// one write of the status, only if it changed; the events of what changed.
package kube

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
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

// Syncer makes the world follow obj: gather, decide, apply. It may edit the status of obj in memory and never writes it.
type Syncer[T client.Object] interface {
	Sync(ctx context.Context, obj T) error
}

// Cleaner undoes what Sync did, before obj goes away. It returns Wait while something remains. It needs
// Options.Finalizer.
type Cleaner[T client.Object] interface {
	Cleanup(ctx context.Context, obj T) error
}

// Reporter sets the conditions of obj in memory, from the error of Sync or Cleanup, and returns the events of what
// changed by that. Without a Reporter an Invalid error becomes a warning event.
type Reporter[T client.Object] interface {
	Report(obj T, err error) []Event
}

// Recaller returns the events that the status of obj, as it is stored, goes with. It must change nothing. A process that
// starts does not tell again what is well; what is wrong it does, for Kubernetes forgets events after an hour.
type Recaller[T client.Object] interface {
	Recall(obj T) []Event
}

// Bearer returns the copy of obj that carries its status to the API server, which takes the rest from what is stored: the
// metadata and the status. It is for large objects of the API server's extensions, whose status is ours alone: with a Bearer
// the status is written as a whole, and not as a patch, for which the API server encodes and decodes all of the object.
type Bearer[T client.Object] interface {
	Bear(obj T) T
}

// Rescheduler tells after which time to look again at an object that was synced without error; 0 is never.
type Rescheduler[T client.Object] interface {
	Next(obj T) time.Duration
}

// Options say how a Controller runs.
type Options struct {
	// Name of the controller, unique in the process.
	Name string
	// Finalizer guards the Cleaner; empty for none.
	Finalizer string
	// NeedsFinalizer tells which objects need the finalizer; nil for all. One that is already there stays until Cleanup.
	NeedsFinalizer func(client.Object) bool
	// Workers is the number of objects handled at once; 0 is 1.
	Workers int
	// Group returns to whom a request belongs: who has many gets its turns between those of the others. nil serves requests as they come.
	Group func(reconcile.Request) string
}

// Controller runs the loop for one kind.
type Controller[T client.Object] struct {
	mgr      ctrl.Manager
	client   client.Client
	recorder events.EventRecorder
	options  Options
	syncer   Syncer[T]
	told     Told[types.NamespacedName, Event]
	// released are the UIDs of objects whose finalizer we took off, until the cache knows that they are gone. Cleanup must not
	// run again for an object that a late cache still shows: what it would hold anew, nobody would ever release.
	released Table[types.NamespacedName, types.UID]
	// held are the objects that were synced under our finalizer, as last seen.
	held Table[types.NamespacedName, T]
}

// NewController makes the controller of one kind. Builder and Complete register it.
func NewController[T client.Object](mgr ctrl.Manager, o Options, s Syncer[T]) *Controller[T] {
	return &Controller[T]{
		mgr:      mgr,
		client:   mgr.GetClient(),
		recorder: mgr.GetEventRecorder("liqo-" + o.Name),
		options:  o,
		syncer:   s,
	}
}

// Builder starts the registration: add Owns and Watches to what it returns, then call Complete.
func (c *Controller[T]) Builder(preds ...predicate.Predicate) *builder.Builder {
	return ctrl.NewControllerManagedBy(c.mgr).
		Named(c.options.Name).
		For(newObject[T](), builder.WithPredicates(preds...))
}

// retryBase and retryCap bound the back-off of one failing object. There is no limit common to all objects: one peer
// that is away must not slow down the others.
const (
	retryBase = 50 * time.Millisecond
	retryCap  = time.Minute
)

// RateLimiter is that back-off, for controllers of their own loop.
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

// Reconcile runs the loop once.
func (c *Controller[T]) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	obj := newObject[T]()
	if err := c.client.Get(ctx, req.NamespacedName, obj); err != nil {
		if client.IgnoreNotFound(err) == nil {
			c.told.Forget(req.NamespacedName)
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
	if recaller, ok := c.syncer.(Recaller[T]); ok {
		well := slices.DeleteFunc(recaller.Recall(obj), func(e Event) bool { return e.Type != corev1.EventTypeNormal })
		c.told.Recall(client.ObjectKeyFromObject(obj), well)
	}
	if _, ok := c.syncer.(Cleaner[T]); ok && c.options.Finalizer != "" && controllerutil.ContainsFinalizer(obj, c.options.Finalizer) {
		c.held.Put(client.ObjectKeyFromObject(obj), obj)
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
		c.held.Drop(key)
	}
	return c.resultOf(ctx, obj, err)
}

// cleanupGone cleans up after an object that went in spite of our finalizer. An API server that is asked to delete an
// object while its first finalizer is being written takes the finalizer and deletes the object all the same; and people
// take finalizers off by hand.
func (c *Controller[T]) cleanupGone(ctx context.Context, key types.NamespacedName) (reconcile.Result, error) {
	obj, ok := c.held.Get(key)
	if !ok {
		return reconcile.Result{}, nil
	}
	// A cache of some objects only also forgets what it is not to show any more.
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
	c.held.Drop(key)
	return reconcile.Result{}, nil
}

func (c *Controller[T]) needsFinalizer(obj T) bool {
	return c.options.Finalizer != "" && (c.options.NeedsFinalizer == nil || c.options.NeedsFinalizer(obj))
}

// patchChanges reports, writes the status if it changed, and tells of the changes only once they are written.
func (c *Controller[T]) patchChanges(ctx context.Context, before, obj T, err error) (reconcile.Result, error) {
	report := append(c.reportError(obj, err), conflictEvents(err)...)
	if patchErr := c.writeStatus(ctx, before, obj); patchErr != nil {
		if conflicts := conflictEvents(patchErr); len(conflicts) > 0 {
			c.recordEvents(obj, conflicts)
		}
		if Judge(err).Failed() {
			return c.resultOf(ctx, obj, err)
		}
		return c.resultOf(ctx, obj, patchErr)
	}
	c.recordEvents(obj, report)
	return c.resultOf(ctx, obj, err)
}

// recordEvents records the events of what was not so before; no events at all forget what was.
func (c *Controller[T]) recordEvents(obj T, events []Event) {
	for _, e := range c.told.News(client.ObjectKeyFromObject(obj), events) {
		c.recorder.Eventf(obj, nil, e.Type, e.Reason, "Sync", "%s", Note(e.Message))
	}
}

func (c *Controller[T]) reportError(obj T, err error) []Event {
	if reporter, ok := c.syncer.(Reporter[T]); ok {
		return reporter.Report(obj, err)
	}
	return Complaints(err)
}

// resultOf turns the error of an attempt into what the queue should do.
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
	verdict := Judge(err)
	switch {
	case verdict.Failed():
		return reconcile.Result{}, err
	case verdict.Invalid():
		log.FromContext(ctx).V(1).Info("not acceptable", "reason", verdict.Reason, "detail", err.Error())
	default:
		log.FromContext(ctx).V(1).Info("nothing changed", "reason", verdict.Reason)
	}
	return reconcile.Result{RequeueAfter: verdict.After}, nil
}
