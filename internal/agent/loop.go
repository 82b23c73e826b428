// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
	"liqo.io/liqo/internal/datapath"
	"liqo.io/liqo/internal/datapath/kernel"
	"liqo.io/liqo/internal/kube"
)

// Loop reconciles the whole state on each relevant change, because the parts depend on each other.
type Loop struct {
	Name string
	// Kinds are watched; Matters reports whether a change of an object is relevant. nil: every change.
	Kinds   []client.Object
	Matters func(old, now client.Object) bool
	// Watches report changes outside of the API, for example in the kernel.
	Watches []Watch
	// Trigger requests runs; nil is none.
	Trigger Trigger
	// Prober runs beside the loop; nil is none.
	Prober manager.Runnable
	// Health is the readiness check of the loop; nil is none.
	Health *Health
	// Run reconciles once. Runs never overlap. A non-zero duration is the delay until the next run at the latest. An error is
	// retried; conflicts are not logged as errors.
	Run func(context.Context) (time.Duration, error)
}

// Watch returns a channel that receives a value after each change, and is closed when the watch ends.
type Watch func(context.Context) (<-chan struct{}, error)

// Trigger requests a run of a loop. Requests before the run are one request.
type Trigger chan struct{}

// NewTrigger returns a trigger without a request.
func NewTrigger() Trigger { return make(Trigger, 1) }

// Send requests a run, without blocking.
func (t Trigger) Send() {
	select {
	case t <- struct{}{}:
	default:
	}
}

// Kernel is the network namespace of an agent.
type Kernel interface {
	Tracker
	Apply(context.Context, datapath.State) (kernel.Changes, error)
	Watch(context.Context) (<-chan struct{}, error)
	// Counted returns the number of dropped packets by reason.
	Counted() (map[string]uint64, error)
}

// A run starts gathering after the first change of a batch, or podGathering if only pods of nodes changed, and at least spacing after the previous
// run: a change of a peering comes in many steps, with some CNIs each pod changes its node, and each run reads the whole kernel state.
const (
	gathering    = 20 * time.Millisecond
	podGathering = time.Second
	spacing      = 150 * time.Millisecond
)

// retryBase and retryCap bound the backoff of a failing loop. A request for a run sooner than spacing would defeat the backoff.
const (
	retryBase = spacing
	retryCap  = 10 * time.Second
)

// Setup registers the loop with the manager.
func (l Loop) Setup(mgr ctrl.Manager) error {
	once := reconcile.Request{}
	once.Name = l.Name
	b := ctrl.NewControllerManagedBy(mgr).Named(l.Name)
	var start atomic.Pointer[time.Time]
	start.Store(&time.Time{})
	early := func() time.Duration { return spacing - time.Since(*start.Load()) }
	wake := l.wakeHandler(once, early)
	matters := predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool { return l.Matters == nil || l.Matters(e.ObjectOld, e.ObjectNew) }}
	for _, kind := range l.Kinds {
		b.Watches(kind, wake, builder.WithPredicates(matters))
	}
	changes := make(chan event.GenericEvent)
	b.WatchesRawSource(source.Channel(changes, wake))
	b.WithOptions(controller.Options{
		RateLimiter:        workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](retryBase, retryCap),
		NeedLeaderElection: new(false),
	})
	err := b.Complete(reconcile.Func(func(ctx context.Context, _ reconcile.Request) (reconcile.Result, error) {
		if wait := early(); wait > 0 {
			return reconcile.Result{RequeueAfter: wait}, nil // for a requested run, and for changes that arrived just before the run
		}
		now := time.Now()
		start.Store(&now)
		again, err := l.Run(ctx)
		if v := kube.Classify(err); err != nil && v.After > 0 {
			if again > 0 {
				v.After = min(v.After, again)
			}
			return reconcile.Result{RequeueAfter: v.After}, nil
		}
		return reconcile.Result{RequeueAfter: again}, err
	}))
	if err != nil {
		return fmt.Errorf("registering the loop %s: %w", l.Name, err)
	}
	if l.Prober != nil {
		if err := mgr.Add(l.Prober); err != nil {
			return fmt.Errorf("adding the prober of the loop %s: %w", l.Name, err)
		}
	}
	if l.Health != nil {
		if err := mgr.AddReadyzCheck("applied", l.Health.Check); err != nil {
			return fmt.Errorf("adding the readiness check of the loop %s: %w", l.Name, err)
		}
	}
	return mgr.Add(everywhere(func(ctx context.Context) error { return l.forwardChanges(ctx, changes) }))
}

// wakeHandler requests a run after each change, not before early is over.
func (l Loop) wakeHandler(once reconcile.Request, early func() time.Duration) handler.Funcs {
	add := func(q queue) { q.AddAfter(once, max(gathering, early())) }
	return handler.Funcs{
		CreateFunc: func(_ context.Context, _ event.CreateEvent, q queue) { add(q) },
		UpdateFunc: func(_ context.Context, e event.UpdateEvent, q queue) {
			if l.isOfPods(e.ObjectOld, e.ObjectNew) {
				q.AddAfter(once, max(podGathering, early()))
				return
			}
			add(q)
		},
		DeleteFunc:  func(_ context.Context, _ event.DeleteEvent, q queue) { add(q) },
		GenericFunc: func(_ context.Context, _ event.GenericEvent, q queue) { add(q) },
	}
}

// isOfPods reports whether only the pods of a node changed.
func (l Loop) isOfPods(old, now client.Object) bool {
	return l.Matters != nil && !l.Matters(old, WithPodsOf(old, now))
}

// WithPodsOf returns an InternalNode with the pods of its old state, and any other object unchanged.
func WithPodsOf(old, now client.Object) client.Object {
	was, ok := old.(*networkingv1beta1.InternalNode)
	if !ok {
		return now
	}
	out := *now.(*networkingv1beta1.InternalNode)
	out.Status.PodCIDRs = was.Status.PodCIDRs
	return &out
}

type queue = workqueue.TypedRateLimitingInterface[reconcile.Request]

// forwardChanges requests a run for each change of a watch and each value of the trigger. The first request is unconditional, because a
// cluster may have no object of any watched kind.
func (l Loop) forwardChanges(ctx context.Context, to chan<- event.GenericEvent) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	changed, ended := NewTrigger(), make(chan struct{}, len(l.Watches))
	for _, watch := range l.Watches {
		changes, err := watch(ctx)
		if err != nil {
			return fmt.Errorf("watching for %s: %w", l.Name, err)
		}
		go func() {
			for range changes {
				changed.Send()
			}
			ended <- struct{}{}
		}()
	}
	for {
		select {
		case to <- event.GenericEvent{Object: nothing}:
		case <-ctx.Done():
			return nil
		}
		select {
		case <-changed:
		case <-l.Trigger:
		case <-ended:
			if ctx.Err() == nil {
				return fmt.Errorf("watching for %s ended", l.Name)
			}
			return nil
		case <-ctx.Done():
			return nil
		}
	}
}

// nothing is the placeholder object of changes outside of the API.
var nothing client.Object = &metav1.PartialObjectMetadata{}

// everywhere is a runnable on each replica, without leader election.
type everywhere func(context.Context) error

func (f everywhere) Start(ctx context.Context) error { return f(ctx) }

func (everywhere) NeedLeaderElection() bool { return false }

var _ manager.LeaderElectionRunnable = everywhere(nil)
