// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package ipam

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	ipamv1alpha1 "liqo.io/liqo/api/ipam/v1alpha1"
	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/names"
	"liqo.io/liqo/internal/prefix"
)

// Options configure the allocations.
type Options struct {
	// LiqoNamespace holds the Networks of the installation and the Lease that serialises allocations.
	LiqoNamespace string
	// Pools are the prefixes from which allocations are made.
	Pools []netip.Prefix
}

// Setup registers the controllers of Networks, IPs, addresses of nodes, and the addresses of the API server and its proxy.
func Setup(mgr ctrl.Manager, o Options) error {
	direct, err := kube.DirectClient(mgr)
	if err != nil {
		return err
	}
	l := newAllocator(direct, o, nodesOf(mgr.GetClient()))
	if err := setupNetworks(mgr, l); err != nil {
		return err
	}
	if err := setupIPs(mgr, l); err != nil {
		return err
	}
	if err := setupAPIServer(mgr, o.LiqoNamespace); err != nil {
		return err
	}
	if err := setupProxy(mgr, o.LiqoNamespace); err != nil {
		return err
	}
	return setupNodes(mgr, l)
}

// nodesOf returns the addresses of nodes as claims: no local CIDR of a peer may cover one. Pods may share their prefix with nodes.
func nodesOf(c client.Reader) func(context.Context) ([]prefix.Claim, error) {
	return func(ctx context.Context) ([]prefix.Claim, error) {
		var nodes corev1.NodeList
		if err := c.List(ctx, &nodes); err != nil {
			return nil, fmt.Errorf("listing nodes: %w", err)
		}
		var out []prefix.Claim
		for i := range nodes.Items {
			for _, a := range nodes.Items[i].Status.Addresses {
				if addr := storedAddr(a.Address); addr.IsValid() {
					out = append(out, prefix.Claim{Prefix: netip.PrefixFrom(addr, addr.BitLen()), Shared: true, Apart: true, Of: "Node " + nodes.Items[i].Name})
				}
			}
		}
		return out, nil
	}
}

// networks reconciles Networks: each gets a prefix.
type networks struct{ allocator *allocator }

func setupNetworks(mgr ctrl.Manager, l *allocator) error {
	n := &networks{allocator: l}
	c := kube.NewController[*ipamv1alpha1.Network](mgr, kube.Options{
		Name:      "network",
		Finalizer: names.NetworkFinalizer,
		// Preinstalled Networks are deleted with the installation, when no controller is left to remove a finalizer.
		NeedsFinalizer: func(obj client.Object) bool { return obj.GetAnnotations()[names.Preinstalled] != "true" },
	}, n)
	b := c.Builder().
		Watches(&ipamv1alpha1.Network{}, l.eventHandler(l.networksWithout)).
		Watches(&ipamv1alpha1.IP{}, l.eventHandler(l.networksHeld)).
		Watches(&corev1.Node{}, wakingHandler(l.networksWithout), builder.WithPredicates(addressesChanged()))
	return c.Complete(b)
}

// networksWithout returns the Networks without an allocation.
func (l *allocator) networksWithout(client.Object) []client.ObjectKey {
	return keysOf(l.networksThat(func(n networkClaim) bool { return !n.granted.IsValid() && !n.going }))
}

// networksHeld returns the Networks whose deletion or allocation may have waited for a deleted IP.
func (l *allocator) networksHeld(obj client.Object) []client.ObjectKey {
	ip, ok := obj.(*ipamv1alpha1.IP)
	if !ok {
		return nil
	}
	gone := aliasOf(ip)
	return keysOf(l.networksThat(func(n networkClaim) bool {
		return gone.addr.IsValid() && (n.going && n.granted == gone.within || !n.granted.IsValid())
	}))
}

func keysOf(networks []networkClaim) []client.ObjectKey {
	out := make([]client.ObjectKey, len(networks))
	for i, n := range networks {
		out[i] = n.key
	}
	return out
}

// eventHandler stores informer events in the allocations and enqueues the objects selected by whom if the change matters to them.
func (l *allocator) eventHandler(whom func(client.Object) []client.ObjectKey) handler.EventHandler {
	wake := wakingHandler(whom)
	return handler.Funcs{
		CreateFunc: func(ctx context.Context, e event.CreateEvent, q queue) {
			l.recordObject(e.Object)
			if l.isRelevant(nil, e.Object) {
				wake.Create(ctx, e, q)
			}
		},
		UpdateFunc: func(ctx context.Context, e event.UpdateEvent, q queue) {
			if old := e.ObjectOld.GetUID(); old != e.ObjectNew.GetUID() { // deleted and recreated during an interruption of the watch
				l.removeObject(old)
			}
			l.recordObject(e.ObjectNew)
			if l.isRelevant(e.ObjectOld, e.ObjectNew) {
				wake.Update(ctx, e, q)
			}
		},
		DeleteFunc: func(ctx context.Context, e event.DeleteEvent, q queue) {
			l.removeObject(e.Object.GetUID())
			wake.Delete(ctx, e, q)
		},
	}
}

type queue = workqueue.TypedRateLimitingInterface[reconcile.Request]

func wakingHandler(whom func(client.Object) []client.ObjectKey) handler.EventHandler {
	return handler.EnqueueRequestsFromMapFunc(func(_ context.Context, obj client.Object) []reconcile.Request {
		keys := whom(obj)
		out := make([]reconcile.Request, len(keys))
		for i, key := range keys {
			out[i] = reconcile.Request{NamespacedName: key}
		}
		return out
	})
}

// addressesChanged selects events of nodes that are created, deleted or change addresses.
func addressesChanged() predicate.Predicate {
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		old, okOld := e.ObjectOld.(*corev1.Node)
		now, okNow := e.ObjectNew.(*corev1.Node)
		return !okOld || !okNow || !slices.Equal(old.Status.Addresses, now.Status.Addresses)
	}}
}

// Sync allocates the prefix of a Network.
func (n *networks) Sync(ctx context.Context, network *ipamv1alpha1.Network) error {
	if network.Status.CIDR != "" {
		return nil
	}
	written, err := n.allocator.toNetwork(ctx, network)
	if written != nil {
		network.Status.CIDR, network.ResourceVersion = written.Status.CIDR, written.ResourceVersion
	}
	return err
}

// drainDelay is the interval of checks for the last addresses of a Network being deleted, in case the event is lost.
const drainDelay = 10 * time.Second

// Cleanup waits until no IP has an address of the Network.
func (n *networks) Cleanup(ctx context.Context, network *ipamv1alpha1.Network) error {
	used, err := n.allocator.releaseAll(ctx, network)
	if err != nil {
		return err
	}
	if used > 0 {
		return kube.Wait(drainDelay, fmt.Sprintf("%d IPs have addresses of %s", used, network.Status.CIDR))
	}
	return nil
}

// Report sets the condition of the Network and returns its event.
func (n *networks) Report(network *ipamv1alpha1.Network, err error) []kube.Event {
	return reportCondition(&network.Status.Conditions, network.Generation, string(network.Status.CIDR), err)
}

// ReplayEvents returns the event of the present condition.
func (n *networks) ReplayEvents(network *ipamv1alpha1.Network) []kube.Event {
	return replayEvents(network.Status.Conditions)
}

// reportCondition sets the condition Allocated and returns its event. Transient errors leave the condition unchanged.
func reportCondition(conditions *[]metav1.Condition, generation int64, granted string, err error) []kube.Event {
	c := metav1.Condition{Type: ipamv1alpha1.ConditionAllocated, ObservedGeneration: generation}
	if reason, ok := kube.InvalidReason(err); ok {
		c.Status, c.Reason, c.Message = metav1.ConditionFalse, reason, err.Error()
	} else if granted != "" {
		c.Status, c.Reason, c.Message = metav1.ConditionTrue, "Allocated", granted+" is allocated"
	} else {
		return replayEvents(*conditions)
	}
	apimeta.SetStatusCondition(conditions, c)
	return replayEvents(*conditions)
}

func replayEvents(conditions []metav1.Condition) []kube.Event {
	c := apimeta.FindStatusCondition(conditions, ipamv1alpha1.ConditionAllocated)
	if c == nil {
		return nil
	}
	e := kube.Event{Type: corev1.EventTypeNormal, Reason: c.Reason, Message: c.Message}
	if c.Status != metav1.ConditionTrue {
		e.Type = corev1.EventTypeWarning
	}
	return []kube.Event{e}
}
