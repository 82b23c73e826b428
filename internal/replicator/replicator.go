// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

// Package replicator replicates objects to a peer: NamespaceMaps, ResourceSlices and Renews of a tenant namespace are
// replicated to the tenant namespace at the peer, and their status is copied back. The endpoint of a tunnel's server is
// reported to the clients in the other cluster.
//
// A Secret with control-plane credentials in a tenant namespace starts the replication. One reconciler, keyed by the peer,
// decides all that follows from the peer's Secrets: the effective Secret, the connection, problems, and the release of the
// Secret. Problems are reported by events on the Secret and by the condition APIServerStatus of the ForeignCluster. Only this
// package writes the condition.
package replicator

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	authv1beta1 "liqo.io/liqo/api/authentication/v1beta1"
	liqov1beta1 "liqo.io/liqo/api/core/v1beta1"
	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/names"
	"liqo.io/liqo/internal/peer"
)

// Options say how replication runs.
type Options struct {
	// ClusterID is this cluster's.
	ClusterID liqov1beta1.ClusterID
	// AllowLoopbackPeers lets peers be on this machine.
	AllowLoopbackPeers bool
	// Version of the local Liqo, as published to peers; empty for none.
	Version string
	// Workers is the number of objects of a kind replicated to one peer concurrently; 0 is 4.
	Workers int
	// HealthInterval is the time between two checks of a peer's API server; 0 is 15 s, a negative value disables the
	// check and counts as reachable.
	HealthInterval time.Duration
	// HealthTimeout is the timeout of one check; 0 is 5 s.
	HealthTimeout time.Duration
	// ForgottenAfter is how long a peer must reject every call before the rejection counts as permanent: a starting API
	// server, or permissions not granted yet, look the same. 0 is 2 min.
	ForgottenAfter time.Duration
}

const (
	healthInterval = 15 * time.Second
	healthTimeout  = 5 * time.Second
	forgottenAfter = 2 * time.Minute
	// retryBase and retryCap bound the backoff of one peer.
	retryBase = 50 * time.Millisecond
	retryCap  = time.Minute
)

// reconciler makes the links follow the Secrets, one peer at a time.
type reconciler struct {
	options  Options
	config   *rest.Config
	client   client.Client
	live     client.Reader
	secrets  *kube.NamespacedWatch
	recorder events.EventRecorder
	log      logr.Logger
	links    links
	problems *kube.EventRecorder
	queue    workqueue.TypedRateLimitingInterface[reconcile.Request]
}

// Setup registers replication with a manager.
func Setup(mgr ctrl.Manager, o Options) error {
	o.HealthInterval = cmp.Or(o.HealthInterval, healthInterval)
	o.HealthTimeout = cmp.Or(o.HealthTimeout, healthTimeout)
	o.ForgottenAfter = cmp.Or(o.ForgottenAfter, forgottenAfter)
	credentials := labels.SelectorFromSet(labels.Set{names.IdentityType: string(authv1beta1.ControlPlaneIdentityType)})
	r := &reconciler{
		options:  o,
		config:   mgr.GetConfig(),
		client:   mgr.GetClient(),
		live:     mgr.GetAPIReader(),
		secrets:  kube.NewNamespacedWatch(mgr.GetConfig(), mgr.GetCache(), &corev1.Secret{}, peer.Namespaces(), credentials),
		recorder: mgr.GetEventRecorder(names.CRDReplicator),
		problems: kube.NewEventRecorder(kube.EmitBy(mgr.GetEventRecorder(names.CRDReplicator), "Replicate")),
		log:      mgr.GetLogger().WithName("replicate"),
	}
	if err := mgr.Add(r.secrets); err != nil {
		return fmt.Errorf("adding the watch of Secrets: %w", err)
	}
	if err := mgr.Add(&r.links); err != nil {
		return fmt.Errorf("adding the links: %w", err)
	}
	return r.registerWatches(mgr)
}

func (r *reconciler) registerWatches(mgr ctrl.Manager) error {
	err := ctrl.NewControllerManagedBy(mgr).
		Named("replicate").
		For(&liqov1beta1.ForeignCluster{}).
		Watches(&corev1.Namespace{}, handler.EnqueueRequestsFromMapFunc(ofNamespace)).
		WatchesRawSource(r.secrets.Source(handler.EnqueueRequestsFromMapFunc(r.ofSecret))).
		WatchesRawSource(source.Func(r.keepQueue)).
		WithOptions(controller.Options{
			// Peers are independent: dialling an unreachable peer may take a while.
			MaxConcurrentReconciles: 4,
			RateLimiter:             workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](retryBase, retryCap),
		}).
		Complete(r)
	if err != nil {
		return fmt.Errorf("registering controller replicate: %w", err)
	}
	return nil
}

// keepQueue is the source of events that links raise.
func (r *reconciler) keepQueue(_ context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
	r.queue = queue
	return nil
}

func (r *reconciler) enqueue(id liqov1beta1.ClusterID) { r.queue.Add(requestFor(string(id))) }

func requestFor(id string) reconcile.Request {
	return reconcile.Request{NamespacedName: types.NamespacedName{Name: id}}
}

func ofNamespace(_ context.Context, obj client.Object) []reconcile.Request {
	if id := obj.GetLabels()[names.RemoteClusterID]; id != "" {
		return []reconcile.Request{requestFor(id)}
	}
	return nil
}

// ofSecret returns requests for the peer of the Secret's tenant namespace, and for the peer in its label.
func (r *reconciler) ofSecret(ctx context.Context, obj client.Object) []reconcile.Request {
	var out []reconcile.Request
	var namespace corev1.Namespace
	if err := r.client.Get(ctx, types.NamespacedName{Name: obj.GetNamespace()}, &namespace); err == nil {
		if id, ok := peer.OfNamespace(&namespace); ok {
			out = append(out, requestFor(string(id)))
		}
	}
	if id := obj.GetLabels()[names.RemoteClusterID]; id != "" {
		out = append(out, requestFor(id))
	}
	return out
}
