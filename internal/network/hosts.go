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
	// LiqoNamespace holds the objects for nodes.
	LiqoNamespace string
}

// hostConditions prunes the conditions of deleted or no longer targeted hosts on a RouteConfiguration or a FirewallConfiguration, because no agent is
// left to remove the conditions. An agent without its condition writes the condition again. An object without a host gets a condition with this
// reason.
type hostConditions struct {
	client client.Client
	home   string
}

// SetupHosts registers the controller that prunes the conditions of deleted hosts.
func SetupHosts(mgr ctrl.Manager, o HostOptions) error {
	h := &hostConditions{client: mgr.GetClient(), home: o.LiqoNamespace}
	b := ctrl.NewControllerManagedBy(mgr).Named("hosts")
	for _, kind := range []client.Object{
		&networkingv1beta1.RouteConfiguration{}, &networkingv1beta1.FirewallConfiguration{},
		&corev1.Node{}, &networkingv1beta1.GatewayServer{}, &networkingv1beta1.GatewayClient{},
	} {
		b.Watches(kind, allToOne(), builder.WithPredicates(predicate.Funcs{UpdateFunc: specOrNamesChanged}))
	}
	if err := b.Complete(h); err != nil {
		return fmt.Errorf("registering controller hosts: %w", err)
	}
	return nil
}

// specOrNamesChanged reports changes of the set of hosts, of the targets of an object, and of the peer of a
// gateway.
func specOrNamesChanged(e event.UpdateEvent) bool {
	return !maps.Equal(e.ObjectOld.GetLabels(), e.ObjectNew.GetLabels()) || !slices.Equal(*hostConditionsOf(e.ObjectOld), *hostConditionsOf(e.ObjectNew))
}

// Reconcile processes all objects: they are few, and most events concern all of them.
func (h *hostConditions) Reconcile(ctx context.Context, _ reconcile.Request) (reconcile.Result, error) {
	return kube.Result(h.syncAll(ctx))
}

func (h *hostConditions) syncAll(ctx context.Context) error {
	objects, err := h.listObjects(ctx)
	if err != nil || len(objects) == 0 {
		return err
	}
	hosts, err := h.listHosts(ctx)
	if err != nil {
		return err
	}
	var errs []error
	for _, obj := range objects {
		who, unapplied := hosts.reportingHosts(obj, h.home), ""
		if !hosts.isApplied(obj, h.home) {
			unapplied = plan.WhyUnapplied(obj, h.home)
		}
		errs = append(errs, h.pruneConditions(ctx, obj, who, unapplied))
	}
	return errors.Join(errs...)
}

// listObjects returns the kinds that hosts apply.
func (h *hostConditions) listObjects(ctx context.Context) ([]client.Object, error) {
	all, err := h.listAll(ctx, &networkingv1beta1.RouteConfiguration{}, &networkingv1beta1.FirewallConfiguration{})
	return slices.DeleteFunc(all, func(obj client.Object) bool { return obj.GetDeletionTimestamp() != nil }), err
}

// knownHosts are the hosts of this cluster: all hosts with an agent, and possibly some without.
type knownHosts struct {
	nodes    map[string]bool
	gateways []client.Object
}

func (h *hostConditions) listHosts(ctx context.Context) (out knownHosts, err error) {
	nodes, err := h.listAll(ctx, &corev1.Node{})
	if err != nil {
		return out, err
	}
	out.nodes = map[string]bool{}
	for _, n := range nodes {
		out.nodes[n.GetName()] = true
	}
	out.gateways, err = h.listAll(ctx, &networkingv1beta1.GatewayServer{}, &networkingv1beta1.GatewayClient{})
	return out, err
}

func (h *hostConditions) listAll(ctx context.Context, kinds ...client.Object) (all []client.Object, err error) {
	for _, kind := range kinds {
		found, err := listOf(ctx, h.client, kindOf(kind), client.UnsafeDisableDeepCopy)
		if err != nil {
			return nil, err
		}
		all = append(all, found...)
	}
	return all, nil
}

// reportingHosts returns a predicate for the hosts that an object targets.
func (t knownHosts) reportingHosts(obj client.Object, liqoNamespace string) func(host string) bool {
	onNode, onGateway := targetsOf(obj, liqoNamespace)
	return func(host string) bool {
		return t.nodes[host] && onNode(host) || slices.ContainsFunc(t.gateways, func(g client.Object) bool {
			key := plan.PeerKey{Namespace: g.GetNamespace(), ClusterID: g.GetLabels()[names.RemoteClusterID]}
			// A gateway without the label still serves its original peer.
			return g.GetName() == host && g.GetNamespace() == obj.GetNamespace() && (key.ClusterID == "" || onGateway(key))
		})
	}
}

// isApplied reports whether at least one host applies an object. A gateway applies objects in further namespaces without setting a condition on
// them.
func (t knownHosts) isApplied(obj client.Object, liqoNamespace string) bool {
	onNode, onGateway := targetsOf(obj, liqoNamespace)
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

// targetsOf returns predicates for the nodes and gateways that an object targets.
func targetsOf(obj client.Object, liqoNamespace string) (node func(string) bool, gateway func(plan.PeerKey) bool) {
	if _, ok := obj.(*networkingv1beta1.FirewallConfiguration); ok {
		return firewallOn(obj, liqoNamespace)
	}
	return routesOn(obj, liqoNamespace)
}

// routesOn retains a gateway's condition on routes for gateways of one node: the controller learns the gateway's node later than its agent.
func routesOn(obj client.Object, liqoNamespace string) (node func(string) bool, gateway func(plan.PeerKey) bool) {
	return func(string) bool { return plan.RoutesOnNode(obj, liqoNamespace) },
		func(key plan.PeerKey) bool {
			return plan.RoutesOnGateway(obj, liqoNamespace, key, obj.GetLabels()[names.RouteUnique])
		}
}

func firewallOn(obj client.Object, liqoNamespace string) (node func(string) bool, gateway func(plan.PeerKey) bool) {
	return func(name string) bool { return plan.FirewallOnNode(obj, liqoNamespace, name) },
		func(key plan.PeerKey) bool { return plan.FirewallOnGateway(obj, liqoNamespace, key) }
}

// pruneConditions removes the conditions of hosts that are no targets, and sets the reason if no host applies the object. A concurrent write causes a
// conflict, and a new decision.
func (h *hostConditions) pruneConditions(ctx context.Context, obj client.Object, who func(host string) bool, unapplied string) error {
	changed := obj.DeepCopyObject().(client.Object)
	all := hostConditionsOf(changed)
	*all = slices.DeleteFunc(*all, func(c networkingv1beta1.HostCondition) bool {
		return !who(c.Host) && (c.Host != networkingv1beta1.NoHost || c.Message != unapplied)
	})
	if unapplied != "" && len(*all) == 0 {
		*all = append(*all, networkingv1beta1.HostCondition{
			Host: networkingv1beta1.NoHost, Type: networkingv1beta1.HostConditionApplied, Status: metav1.ConditionFalse,
			Reason: networkingv1beta1.ReasonNoHost, Message: unapplied, LastTransitionTime: metav1.Now(),
		})
	}
	if slices.Equal(*all, *hostConditionsOf(obj)) {
		return nil
	}
	patch := client.MergeFromWithOptions(obj, client.MergeFromWithOptimisticLock{})
	if err := h.client.Status().Patch(ctx, changed, patch); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("writing which hosts apply %s: %w", client.ObjectKeyFromObject(obj), err)
	}
	return nil
}

// hostConditionsOf returns the conditions that hosts write.
func hostConditionsOf(obj client.Object) *[]networkingv1beta1.HostCondition {
	switch o := obj.(type) {
	case *networkingv1beta1.RouteConfiguration:
		return &o.Status.Conditions
	case *networkingv1beta1.FirewallConfiguration:
		return &o.Status.Conditions
	}
	return new([]networkingv1beta1.HostCondition{})
}
