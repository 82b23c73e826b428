// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package ipam

import (
	"context"
	"fmt"
	"net/netip"
	"time"

	corev1 "k8s.io/api/core/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	ipamv1alpha1 "liqo.io/liqo/api/ipam/v1alpha1"
	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
	"liqo.io/liqo/internal/ipam/tree"
	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/names"
)

// Options say what is granted.
type Options struct {
	// LiqoNamespace holds the Lease that serialises grants.
	LiqoNamespace string
	// Pools are what prefixes are granted of.
	Pools []netip.Prefix
}

// Setup registers the controllers of Networks and IPs.
func Setup(mgr ctrl.Manager, o Options) error {
	direct, err := kube.DirectClient(mgr)
	if err != nil {
		return err
	}
	if _, err := mgr.GetCache().GetInformer(context.Background(), &corev1.Node{}, cache.BlockUntilSynced(false)); err != nil {
		return fmt.Errorf("watching nodes: %w", err)
	}
	l := newLedger(direct, o, nodesOf(mgr.GetClient()))
	if err := setupNetworks(mgr, l); err != nil {
		return err
	}
	return setupIPs(mgr, l)
}

func newLedger(direct client.Client, o Options, others func(context.Context) ([]tree.Claim, error)) *ledger {
	return &ledger{
		book:   newBook(),
		direct: direct,
		pools:  o.Pools,
		others: others,
		turnstile: turnstile{
			client: direct,
			key:    client.ObjectKey{Namespace: o.LiqoNamespace, Name: names.IPAMLease},
		},
	}
}

// nodesOf has the addresses of nodes claimed: no peer may be shown under them. Pods may share their prefix with nodes.
func nodesOf(c client.Reader) func(context.Context) ([]tree.Claim, error) {
	return func(ctx context.Context) ([]tree.Claim, error) {
		var nodes corev1.NodeList
		if err := c.List(ctx, &nodes); err != nil {
			return nil, fmt.Errorf("listing nodes: %w", err)
		}
		var out []tree.Claim
		for i := range nodes.Items {
			for _, a := range nodes.Items[i].Status.Addresses {
				if addr, err := netip.ParseAddr(a.Address); err == nil {
					out = append(out, tree.Claim{Prefix: netip.PrefixFrom(addr, addr.BitLen()), Shared: true, Of: "Node " + nodes.Items[i].Name})
				}
			}
		}
		return out, nil
	}
}

// networks gives each Network its prefix.
type networks struct{ ledger *ledger }

func setupNetworks(mgr ctrl.Manager, l *ledger) error {
	n := &networks{ledger: l}
	c := kube.NewController[*ipamv1alpha1.Network](mgr, kube.Options{
		Name:      "network",
		Finalizer: names.NetworkFinalizer,
		// Those of the installation go with it, when nobody is there to take a finalizer off.
		NeedsFinalizer: func(obj client.Object) bool { return obj.GetAnnotations()[names.Preinstalled] != "true" },
	}, n)
	b := c.Builder().
		Watches(&ipamv1alpha1.Network{}, heard(l.seeNetwork, l.drop, nil, l.networksWithout)).
		Watches(&ipamv1alpha1.IP{}, heard(l.seeIP, l.drop, nil, l.networksGoing))
	return c.Complete(b)
}

// Sync grants.
func (n *networks) Sync(ctx context.Context, network *ipamv1alpha1.Network) error {
	granted, err := n.ledger.toNetwork(ctx, network)
	if err != nil {
		return err
	}
	network.Status.CIDR = networkingv1beta1.CIDR(granted.String())
	return nil
}

// drainDelay is how often to look again whether the addresses of a Network that is going are all given back, should the news
// be missed.
const drainDelay = 10 * time.Second

// Cleanup waits for the IPs that have addresses of the Network.
func (n *networks) Cleanup(ctx context.Context, network *ipamv1alpha1.Network) error {
	used, err := n.ledger.usersOf(ctx, prefix(string(network.Status.CIDR)))
	if err != nil {
		return err
	}
	if used > 0 {
		return kube.Wait(drainDelay, fmt.Sprintf("%d IPs have addresses of %s", used, network.Status.CIDR))
	}
	return nil
}

// Report says whether the Network has its prefix, or why not.
func (n *networks) Report(network *ipamv1alpha1.Network, err error) []kube.Event {
	return report(&network.Status.Conditions, network.Generation, string(network.Status.CIDR), err)
}

// Recall tells what the condition says.
func (n *networks) Recall(network *ipamv1alpha1.Network) []kube.Event {
	return recall(network.Status.Conditions)
}

// report sets the condition of an object that was granted something, or was not, and returns its event. A failure of ours
// changes nothing.
func report(conditions *[]metav1.Condition, generation int64, granted string, err error) []kube.Event {
	c := metav1.Condition{Type: ipamv1alpha1.ConditionAllocated, ObservedGeneration: generation}
	if reason, ok := kube.InvalidReason(err); ok {
		c.Status, c.Reason, c.Message = metav1.ConditionFalse, reason, err.Error()
	} else if granted != "" {
		c.Status, c.Reason, c.Message = metav1.ConditionTrue, "Allocated", granted+" is allocated"
	} else {
		return recall(*conditions)
	}
	apimeta.SetStatusCondition(conditions, c)
	return recall(*conditions)
}

func recall(conditions []metav1.Condition) []kube.Event {
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

// heard enters into the book what a cache shows, and then wakes those whom that may help: news when there is an object, loss
// when there is one less.
func heard[T client.Object](see func(T), drop func(types.UID), news, loss func() []client.ObjectKey) handler.EventHandler {
	wake := func(keys func() []client.ObjectKey, q workqueue.TypedRateLimitingInterface[reconcile.Request]) {
		if keys == nil {
			return
		}
		for _, key := range keys() {
			q.Add(reconcile.Request{NamespacedName: key})
		}
	}
	return handler.Funcs{
		CreateFunc: func(_ context.Context, e event.CreateEvent, q workqueue.TypedRateLimitingInterface[reconcile.Request]) {
			see(e.Object.(T))
			wake(news, q)
		},
		UpdateFunc: func(_ context.Context, e event.UpdateEvent, q workqueue.TypedRateLimitingInterface[reconcile.Request]) {
			see(e.ObjectNew.(T))
			wake(news, q)
		},
		DeleteFunc: func(_ context.Context, e event.DeleteEvent, q workqueue.TypedRateLimitingInterface[reconcile.Request]) {
			drop(e.Object.GetUID())
			wake(loss, q)
		},
	}
}
