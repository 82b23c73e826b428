// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package network

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/names"
	"liqo.io/liqo/internal/network/plan"
)

// HostOptions say where the installation is.
type HostOptions struct {
	// LiqoNamespace holds the objects that are for nodes.
	LiqoNamespace string
}

// hosts takes back what a host says of a RouteConfiguration or a FirewallConfiguration that is not for it any more, or after it is gone:
// nobody is there to take it back. A host that finds what it says missing says it again. Of an object that no host applies it says so.
type hosts struct {
	client client.Client
	home   string
}

// SetupHosts registers the controller that takes back what hosts said that are gone.
func SetupHosts(mgr ctrl.Manager, o HostOptions) error {
	h := &hosts{client: mgr.GetClient(), home: o.LiqoNamespace}
	b := ctrl.NewControllerManagedBy(mgr).Named("hosts")
	for _, kind := range []client.Object{
		&networkingv1beta1.RouteConfiguration{}, &networkingv1beta1.FirewallConfiguration{},
		&corev1.Node{}, &networkingv1beta1.GatewayServer{}, &networkingv1beta1.GatewayClient{},
	} {
		b.Watches(kind, altogether(), builder.WithPredicates(predicate.Funcs{UpdateFunc: said}))
	}
	if err := b.Complete(h); err != nil {
		return fmt.Errorf("registering controller hosts: %w", err)
	}
	return nil
}

// said is true for news of hosts, and of whom an object is for, or which peer a gateway is for.
func said(e event.UpdateEvent) bool {
	return !maps.Equal(e.ObjectOld.GetLabels(), e.ObjectNew.GetLabels()) || !slices.Equal(*saidOf(e.ObjectOld), *saidOf(e.ObjectNew))
}

// Reconcile looks at all of them: they are few, and most of what happens is about all of them.
func (h *hosts) Reconcile(ctx context.Context, _ reconcile.Request) (reconcile.Result, error) {
	return kube.Result(h.sync(ctx))
}

func (h *hosts) sync(ctx context.Context) error {
	objects, err := h.objects(ctx)
	if err != nil || len(objects) == 0 {
		return err
	}
	there, err := h.there(ctx)
	if err != nil {
		return err
	}
	var errs []error
	for _, obj := range objects {
		who, unapplied := there.saying(obj, h.home), ""
		if !there.apply(obj, h.home) {
			unapplied = plan.WhyUnapplied(obj, h.home)
		}
		errs = append(errs, h.keep(ctx, obj, who, unapplied))
	}
	return errors.Join(errs...)
}

// objects are those that hosts apply.
func (h *hosts) objects(ctx context.Context) ([]client.Object, error) {
	all, err := h.all(ctx, &networkingv1beta1.RouteConfiguration{}, &networkingv1beta1.FirewallConfiguration{})
	return slices.DeleteFunc(all, func(obj client.Object) bool { return obj.GetDeletionTimestamp() != nil }), err
}

// thereAre are the hosts of this cluster: all that have an agent, and maybe some that have none.
type thereAre struct {
	nodes    map[string]bool
	gateways []client.Object
}

func (h *hosts) there(ctx context.Context) (out thereAre, err error) {
	nodes, err := h.all(ctx, &corev1.Node{})
	if err != nil {
		return out, err
	}
	out.nodes = map[string]bool{}
	for _, n := range nodes {
		out.nodes[n.GetName()] = true
	}
	out.gateways, err = h.all(ctx, &networkingv1beta1.GatewayServer{}, &networkingv1beta1.GatewayClient{})
	return out, err
}

func (h *hosts) all(ctx context.Context, kinds ...client.Object) (all []client.Object, err error) {
	for _, kind := range kinds {
		found, err := listOf(ctx, h.client, kindOf(kind), client.UnsafeDisableDeepCopy)
		if err != nil {
			return nil, err
		}
		all = append(all, found...)
	}
	return all, nil
}

// saying tells which hosts an object is for.
func (t thereAre) saying(obj client.Object, home string) func(host string) bool {
	onNode, onGateway := targets(obj, home)
	return func(host string) bool {
		return t.nodes[host] && onNode(host) || slices.ContainsFunc(t.gateways, func(g client.Object) bool {
			key := plan.PeerKey{Namespace: g.GetNamespace(), ClusterID: g.GetLabels()[names.RemoteClusterID]}
			// One that lost the label runs on for the peer that it was made for.
			return g.GetName() == host && g.GetNamespace() == obj.GetNamespace() && (key.ClusterID == "" || onGateway(key))
		})
	}
}

// apply reports whether one of the hosts applies an object. A gateway says nothing of objects in other namespaces, which it may apply all the same.
func (t thereAre) apply(obj client.Object, home string) bool {
	onNode, onGateway := targets(obj, home)
	for node := range t.nodes {
		if onNode(node) {
			return true
		}
	}
	return slices.ContainsFunc(t.gateways, func(g client.Object) bool {
		key := plan.PeerKey{Namespace: g.GetNamespace(), ClusterID: g.GetLabels()[names.RemoteClusterID]}
		return onGateway(key) || key.ClusterID == "" && g.GetNamespace() == obj.GetNamespace()
	})
}

// targets are the nodes and gateways that an object is for.
func targets(obj client.Object, home string) (node func(string) bool, gateway func(plan.PeerKey) bool) {
	if _, ok := obj.(*networkingv1beta1.FirewallConfiguration); ok {
		return firewallOn(obj, home)
	}
	return routesOn(obj, home)
}

// routesOn has a gateway keep its word on routes for gateways of one node: where it runs is known here later than there.
func routesOn(obj client.Object, home string) (node func(string) bool, gateway func(plan.PeerKey) bool) {
	return func(string) bool { return plan.RoutesOnNode(obj, home) },
		func(key plan.PeerKey) bool {
			return plan.RoutesOnGateway(obj, home, key, obj.GetLabels()[names.RouteUnique])
		}
}

func firewallOn(obj client.Object, home string) (node func(string) bool, gateway func(plan.PeerKey) bool) {
	return func(name string) bool { return plan.FirewallOnNode(obj, home, name) },
		func(key plan.PeerKey) bool { return plan.FirewallOnGateway(obj, home, key) }
}

// keep takes back what others say than those who should, and says why no host applies the object, if none does. Who writes meanwhile makes it
// a conflict, and it is decided anew.
func (h *hosts) keep(ctx context.Context, obj client.Object, who func(host string) bool, unapplied string) error {
	changed := obj.DeepCopyObject().(client.Object)
	all := saidOf(changed)
	*all = slices.DeleteFunc(*all, func(c networkingv1beta1.HostCondition) bool {
		return !who(c.Host) && (c.Host != networkingv1beta1.NoHost || c.Message != unapplied)
	})
	if unapplied != "" && len(*all) == 0 {
		*all = append(*all, networkingv1beta1.HostCondition{
			Host: networkingv1beta1.NoHost, Type: networkingv1beta1.HostConditionApplied, Status: metav1.ConditionFalse,
			Reason: networkingv1beta1.ReasonNoHost, Message: unapplied, LastTransitionTime: metav1.Now(),
		})
	}
	if slices.Equal(*all, *saidOf(obj)) {
		return nil
	}
	patch := client.MergeFromWithOptions(obj, client.MergeFromWithOptimisticLock{})
	if err := h.client.Status().Patch(ctx, changed, patch); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("writing which hosts apply %s: %w", client.ObjectKeyFromObject(obj), err)
	}
	return nil
}

// saidOf are the conditions that hosts write.
func saidOf(obj client.Object) *[]networkingv1beta1.HostCondition {
	switch o := obj.(type) {
	case *networkingv1beta1.RouteConfiguration:
		return &o.Status.Conditions
	case *networkingv1beta1.FirewallConfiguration:
		return &o.Status.Conditions
	}
	return new([]networkingv1beta1.HostCondition{})
}
