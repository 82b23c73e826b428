// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package provider

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	liqov1beta1 "liqo.io/liqo/api/core/v1beta1"
	ipamv1alpha1 "liqo.io/liqo/api/ipam/v1alpha1"
	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
	offv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/names"
	"liqo.io/liqo/internal/peer"
	"liqo.io/liqo/internal/prefix"
	"liqo.io/liqo/internal/virtualkubelet/translate"
)

// takenDelay is the interval at which a name in use by another object is checked: no watch reports a free name.
const takenDelay = 30 * time.Second

// ShadowEndpointSliceOptions are the options of the ShadowEndpointSlice controller.
type ShadowEndpointSliceOptions struct {
	// LiqoNamespace is the namespace with the Networks of this cluster.
	LiqoNamespace string
	// Workers is the number of ShadowEndpointSlices reconciled concurrently; 0 is 10.
	Workers int
	// DroppedMetadata are the labels and annotations that an EndpointSlice does not get: see ShadowPodOptions.
	DroppedMetadata []string
	// DenyDirectConnections drops the endpoints of clusters other than the consumer.
	DenyDirectConnections bool
}

// SetupShadowEndpointSlices registers the controller that creates the EndpointSlices of consumers in their remote namespaces.
func SetupShadowEndpointSlices(mgr ctrl.Manager, o ShadowEndpointSliceOptions) error {
	if o.Workers == 0 {
		o.Workers = defaultWorkers
	}
	// Kubernetes before 1.33 has no ServiceCIDRs.
	_, err := mgr.GetCache().GetInformer(context.Background(), &networkingv1.ServiceCIDR{})
	if err != nil && !apimeta.IsNoMatchError(err) {
		return fmt.Errorf("caching the networks of Services: %w", err)
	}
	s := &shadowSlices{client: mgr.GetClient(), live: mgr.GetAPIReader(), installation: o.LiqoNamespace, noServiceCIDRs: err != nil, dropped: o.DroppedMetadata, denyDirect: o.DenyDirectConnections}
	s.made, err = kube.AddCache(mgr, map[client.Object]cache.ByObject{&discoveryv1.EndpointSlice{}: {
		Label: labels.SelectorFromSet(labels.Set{names.ManagedBy: madeFromSlice}),
	}})
	if err != nil {
		return fmt.Errorf("reading the endpoints of consumers: %w", err)
	}
	c := kube.NewController(mgr, kube.Options{Name: "shadowendpointslice", Workers: o.Workers, Group: kube.PeerOf(mgr.GetClient())}, s)
	owner := handler.TypedEnqueueRequestForOwner[*discoveryv1.EndpointSlice](
		mgr.GetScheme(), mgr.GetRESTMapper(), &offv1beta1.ShadowEndpointSlice{}, handler.OnlyControllerOwner())
	b := c.Builder().
		Watches(&corev1.Namespace{}, handler.EnqueueRequestsFromMapFunc(s.inNamespace), builder.WithPredicates(namespaceChanged)).
		Watches(&liqov1beta1.ForeignCluster{}, handler.EnqueueRequestsFromMapFunc(s.ofForeignCluster), builder.WithPredicates(networkingChanged)).
		Watches(&networkingv1beta1.Configuration{}, handler.EnqueueRequestsFromMapFunc(s.ofLabel), builder.WithPredicates(peer.NetworksPredicate)).
		Watches(&networkingv1beta1.Connection{}, handler.EnqueueRequestsFromMapFunc(s.ofLabel), builder.WithPredicates(connectionChanged)).
		Watches(&corev1.Node{}, handler.EnqueueRequestsFromMapFunc(s.allRequests), builder.WithPredicates(nodeNetworkChanged)).
		Watches(&ipamv1alpha1.Network{}, handler.EnqueueRequestsFromMapFunc(s.allRequests), builder.WithPredicates(networkChanged)).
		WatchesRawSource(source.Kind(s.made, &discoveryv1.EndpointSlice{}, owner))
	if !s.noServiceCIDRs {
		b.Watches(&networkingv1.ServiceCIDR{}, handler.EnqueueRequestsFromMapFunc(s.allRequests), builder.WithPredicates(servicesChanged))
	}
	return c.Complete(b)
}

// networkingChanged filters out changes of other modules.
var networkingChanged = predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
	before, after := e.ObjectOld.(*liqov1beta1.ForeignCluster), e.ObjectNew.(*liqov1beta1.ForeignCluster)
	return before.Spec.ClusterID != after.Spec.ClusterID || before.Status.Modules.Networking.Enabled != after.Status.Modules.Networking.Enabled
}}

// connectionChanged filters out changes of the latency.
var connectionChanged = predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
	before, after := e.ObjectOld.(*networkingv1beta1.Connection), e.ObjectNew.(*networkingv1beta1.Connection)
	return before.Status.Value != after.Status.Value || before.Status.Reach != after.Status.Reach || before.Labels[names.RemoteClusterID] != after.Labels[names.RemoteClusterID] ||
		before.DeletionTimestamp.IsZero() != after.DeletionTimestamp.IsZero()
}}

// nodeNetworkChanged passes only changes of the addresses of nodes and of their pods.
var nodeNetworkChanged = predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
	before, after := e.ObjectOld.(*corev1.Node), e.ObjectNew.(*corev1.Node)
	return !slices.Equal(before.Spec.PodCIDRs, after.Spec.PodCIDRs) || !slices.Equal(before.Status.Addresses, after.Status.Addresses)
}}

// networkChanged filters out changes of conditions.
var networkChanged = predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
	before, after := e.ObjectOld.(*ipamv1alpha1.Network), e.ObjectNew.(*ipamv1alpha1.Network)
	return before.Status.CIDR != after.Status.CIDR || before.Spec.CIDR != after.Spec.CIDR || before.Labels[names.NetworkType] != after.Labels[names.NetworkType]
}}

// servicesChanged filters out changes of conditions.
var servicesChanged = predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
	before, after := e.ObjectOld.(*networkingv1.ServiceCIDR), e.ObjectNew.(*networkingv1.ServiceCIDR)
	return !slices.Equal(before.Spec.CIDRs, after.Spec.CIDRs)
}}

// shadowSlices maintains one EndpointSlice for each ShadowEndpointSlice.
type shadowSlices struct {
	client       client.Client
	live         client.Reader
	made         cache.Cache
	installation string
	// noServiceCIDRs is true if the API server does not have the kind.
	noServiceCIDRs bool
	dropped        []string // see ShadowEndpointSliceOptions.DroppedMetadata
	denyDirect     bool
}

// Sync applies the EndpointSlice. Addresses that do not belong to the consumer are dropped and reported.
func (s *shadowSlices) Sync(ctx context.Context, ses *offv1beta1.ShadowEndpointSlice) error {
	current, err := s.readCurrent(ctx, ses)
	if err != nil {
		return err
	}
	consumer, err := s.consumerOf(ctx, ses)
	if kube.IsWait(err) {
		return err
	}
	if err != nil {
		return s.withdrawSlice(ctx, current, err)
	}
	w, err := s.routeTo(ctx, consumer)
	if err != nil {
		return err
	}
	direct, unreadable := s.directRoutes(ctx, ses)
	if _, invalid := kube.InvalidReason(unreadable); unreadable != nil && !invalid {
		return unreadable
	}
	w.direct = direct // without unreadable routes
	want, dropped := endpointSlice(ses, consumer, w, s.dropped...)
	refused := s.applySlice(ctx, ses, current, want)
	if good := acceptedEndpoints(want.Endpoints, refused); len(good) < len(want.Endpoints) {
		want.Endpoints = good
		err = s.applySlice(ctx, ses, current, want)
	} else {
		err, refused = refused, nil
	}
	if err != nil {
		return err
	}
	return errors.Join(unreadable, refused, droppedError(dropped, consumer))
}

// droppedError returns an error with the endpoints outside the consumer's networks, or nil.
func droppedError(dropped []string, consumer string) error {
	if len(dropped) == 0 {
		return nil
	}
	return kube.Invalid("ForeignEndpoints", fmt.Errorf("%d endpoints are left out, because their addresses are none of cluster %s, nor of a connected one by direct connections: %s",
		len(dropped), consumer, kube.Some(dropped)))
}

// readCurrent returns the EndpointSlice made from a ShadowEndpointSlice, nil if there is none.
func (s *shadowSlices) readCurrent(ctx context.Context, ses *offv1beta1.ShadowEndpointSlice) (*discoveryv1.EndpointSlice, error) {
	out := &discoveryv1.EndpointSlice{}
	if err := s.made.Get(ctx, client.ObjectKeyFromObject(ses), out); err != nil {
		if apierrors.IsNotFound(err) {
			return nil, nil
		}
		return nil, fmt.Errorf("reading the EndpointSlice: %w", err)
	}
	if !metav1.IsControlledBy(out, ses) {
		return nil, kube.Wait(successorDelay, "the EndpointSlice of an earlier ShadowEndpointSlice is going")
	}
	return out, nil
}

// consumerOf returns the consumer of the namespace, a decision of the provider only. An object with the origin of another
// cluster is refused.
func (s *shadowSlices) consumerOf(ctx context.Context, ses *offv1beta1.ShadowEndpointSlice) (string, error) {
	namespace := &corev1.Namespace{}
	if err := s.client.Get(ctx, client.ObjectKey{Name: ses.Namespace}, namespace); err != nil {
		if apierrors.IsNotFound(err) {
			return "", kube.Wait(namespaceDelay, "the namespace is not known yet")
		}
		return "", fmt.Errorf("reading the namespace: %w", err)
	}
	if !namespace.DeletionTimestamp.IsZero() {
		return "", kube.Wait(0, "the namespace is being deleted")
	}
	consumer, origin := namespace.Labels[names.RemoteClusterID], ses.Labels[names.OffloadingOrigin]
	if consumer == "" || origin != consumer {
		return "", kube.Invalid("WrongOrigin", fmt.Errorf("the label %s is %q, and the namespace is that of %q", names.OffloadingOrigin, origin, consumer))
	}
	return consumer, nil
}

// withdrawSlice deletes an EndpointSlice that is not permitted any more.
func (s *shadowSlices) withdrawSlice(ctx context.Context, current *discoveryv1.EndpointSlice, why error) error {
	if _, invalid := kube.InvalidReason(why); current == nil || !invalid {
		return why
	}
	return s.removeSlice(ctx, current, why)
}

func (s *shadowSlices) removeSlice(ctx context.Context, current *discoveryv1.EndpointSlice, then error) error {
	if err := kube.DeleteObject(ctx, s.client, current, "removing the EndpointSlice"); err != nil {
		return err
	}
	return then
}

// routeTo collects the state of the network to a consumer. The state of its API server is irrelevant.
func (s *shadowSlices) routeTo(ctx context.Context, consumer string) (peerRoute, error) {
	foreign := &liqov1beta1.ForeignCluster{}
	if err := s.client.Get(ctx, types.NamespacedName{Name: consumer}, foreign); err != nil {
		if apierrors.IsNotFound(err) {
			return peerRoute{}, kube.Wait(0, "the consumer is not known yet")
		}
		return peerRoute{}, fmt.Errorf("reading the foreign cluster: %w", err)
	}
	of := client.MatchingLabels{names.RemoteClusterID: consumer}
	var configurations networkingv1beta1.ConfigurationList
	if err := s.client.List(ctx, &configurations, of); err != nil {
		return peerRoute{}, fmt.Errorf("listing the network configurations: %w", err)
	}
	var connections networkingv1beta1.ConnectionList
	if err := s.client.List(ctx, &connections, of); err != nil {
		return peerRoute{}, fmt.Errorf("listing the connections: %w", err)
	}
	// The status of the ForeignCluster may be older than the objects.
	if !foreign.Status.Modules.Networking.Enabled && len(configurations.Items)+len(connections.Items) == 0 {
		own, err := s.ownPrefixes(ctx)
		return peerRoute{flat: true, own: own}, err
	}
	w := peerRoute{up: slices.ContainsFunc(connections.Items, isUp)}
	if c := peer.Configuration(configurations.Items, liqov1beta1.ClusterID(consumer)); c != nil {
		var err error
		if w.peer, w.placed, err = prefix.Of(c); err != nil {
			w.placed = false // the author of the Configuration gets the error there
		}
	}
	return w, nil
}

// directRoutes returns the routes to endpoints of a ShadowEndpointSlice in clusters other than the consumer, by the
// networks of this cluster with these clusters.
func (s *shadowSlices) directRoutes(ctx context.Context, ses *offv1beta1.ShadowEndpointSlice) (map[string]directRoute, error) {
	claimed, err := translate.DirectEndpoints(ses)
	if err != nil {
		return nil, kube.Invalid("InvalidEndpoints", err)
	}
	if len(claimed) == 0 {
		return nil, nil
	}
	out := map[string]directRoute{}
	for id, addresses := range claimed {
		out[id] = directRoute{addresses: map[string]bool{}}
		for _, address := range addresses {
			out[id].addresses[address] = true
		}
	}
	if s.denyDirect {
		return out, nil
	}
	var configurations networkingv1beta1.ConfigurationList
	if err := s.client.List(ctx, &configurations, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("listing the network configurations: %w", err)
	}
	var connections networkingv1beta1.ConnectionList
	if err := s.client.List(ctx, &connections, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("listing the connections: %w", err)
	}
	for i := range configurations.Items {
		c := &configurations.Items[i]
		id := c.Labels[names.RemoteClusterID]
		route, claimed := out[id]
		if !claimed || peer.Configuration(configurations.Items, liqov1beta1.ClusterID(id)) != c {
			continue
		}
		route.pods, route.placed = prefix.PodsOf(c)
		route.up = slices.ContainsFunc(connections.Items, func(c networkingv1beta1.Connection) bool { return c.Labels[names.RemoteClusterID] == id && isUp(c) })
		out[id] = route
	}
	return out, nil
}

// ownPrefixes returns the prefixes that this cluster uses itself.
func (s *shadowSlices) ownPrefixes(ctx context.Context) ([]netip.Prefix, error) {
	var nodes corev1.NodeList
	if err := s.client.List(ctx, &nodes, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("listing the nodes: %w", err)
	}
	var networks ipamv1alpha1.NetworkList
	if err := s.client.List(ctx, &networks, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("listing the networks: %w", err)
	}
	var services networkingv1.ServiceCIDRList
	if !s.noServiceCIDRs {
		if err := s.client.List(ctx, &services, client.UnsafeDisableDeepCopy); err != nil {
			return nil, fmt.Errorf("listing the networks of Services: %w", err)
		}
	}
	return inUse(nodes.Items, networks.Items, services.Items, s.installation), nil
}

// isUp reports whether endpoints are reachable from at least some nodes: a withdrawal for the sake of the other nodes would
// cut off the reachable ones.
func isUp(c networkingv1beta1.Connection) bool {
	return (c.Status.Value == networkingv1beta1.Connected || c.Status.Reach == networkingv1beta1.ReachSome) && c.DeletionTimestamp.IsZero()
}

func (s *shadowSlices) applySlice(ctx context.Context, ses *offv1beta1.ShadowEndpointSlice, current, want *discoveryv1.EndpointSlice) error {
	if current != nil && current.AddressType != want.AddressType {
		return s.removeSlice(ctx, current, kube.Wait(0, "an EndpointSlice with another address type is being created"))
	}
	if err := controllerutil.SetControllerReference(ses, want, s.client.Scheme()); err != nil {
		return fmt.Errorf("owning the EndpointSlice: %w", err)
	}
	application, err := kube.NewApplication(want, discoveryv1.SchemeGroupVersion.WithKind("EndpointSlice"), names.ShadowEndpointSliceFieldManager)
	if err != nil {
		return fmt.Errorf("preparing the EndpointSlice: %w", err)
	}
	if current == nil {
		created, err := application.Make(ctx, s.client)
		if err == nil && !created {
			return s.inTheWay(ctx, ses)
		}
		return refusedSlice(err)
	}
	_, err = application.Apply(ctx, s.client, current)
	return refusedSlice(err)
}

// inTheWay reads the EndpointSlice of the same name from the API server: the cache holds only EndpointSlices made from
// ShadowEndpointSlices, and may lag.
func (s *shadowSlices) inTheWay(ctx context.Context, ses *offv1beta1.ShadowEndpointSlice) error {
	taken := &discoveryv1.EndpointSlice{}
	if err := s.live.Get(ctx, client.ObjectKeyFromObject(ses), taken); err != nil {
		if apierrors.IsNotFound(err) {
			return kube.Wait(successorDelay, "the conflicting EndpointSlice was just deleted")
		}
		return fmt.Errorf("reading the conflicting EndpointSlice: %w", err)
	}
	if metav1.IsControlledBy(taken, ses) {
		return nil
	}
	if !taken.DeletionTimestamp.IsZero() || taken.Labels[names.ManagedBy] == madeFromSlice {
		return kube.Wait(successorDelay, "the EndpointSlice of an earlier ShadowEndpointSlice is going")
	}
	return kube.Again(takenDelay, kube.Invalid("NameTaken", fmt.Errorf("EndpointSlice %q already exists and was not created from this ShadowEndpointSlice", ses.Name)))
}

// refusedSlice marks errors that only the consumer can fix.
func refusedSlice(err error) error {
	if apierrors.IsInvalid(err) {
		return kube.Invalid("InvalidEndpoints", err)
	}
	return err
}

// acceptedEndpoints returns the endpoints not named in a refusal.
func acceptedEndpoints(all []discoveryv1.Endpoint, refusal error) []discoveryv1.Endpoint {
	status, ok := errors.AsType[*apierrors.StatusError](refusal)
	if !ok || status.Status().Details == nil {
		return all
	}
	wrong := map[int]bool{}
	for _, cause := range status.Status().Details.Causes {
		var i int
		if _, err := fmt.Sscanf(cause.Field, "endpoints[%d]", &i); err == nil {
			wrong[i] = true
		}
	}
	out := []discoveryv1.Endpoint{}
	for i := range all {
		if !wrong[i] {
			out = append(out, all[i])
		}
	}
	return out
}

// inNamespace returns the ShadowEndpointSlices of a namespace: its labels name the consumer.
func (s *shadowSlices) inNamespace(ctx context.Context, obj client.Object) []reconcile.Request {
	return s.requestsFor(ctx, client.InNamespace(obj.GetName()))
}

func (s *shadowSlices) ofForeignCluster(ctx context.Context, obj client.Object) []reconcile.Request {
	return s.ofConsumer(ctx, obj.GetName())
}

// ofLabel returns the ShadowEndpointSlices of the consumer in the label of an object, and ShadowEndpointSlices of other consumers with
// endpoints of the labelled cluster.
func (s *shadowSlices) ofLabel(ctx context.Context, obj client.Object) []reconcile.Request {
	id := obj.GetLabels()[names.RemoteClusterID]
	if id == "" {
		return nil
	}
	return kube.Requests(ctx, s.client, &offv1beta1.ShadowEndpointSliceList{}, func(ses *offv1beta1.ShadowEndpointSlice) bool {
		return ses.Labels[names.OffloadingOrigin] == id || strings.Contains(ses.Annotations[names.DirectConnections], strconv.Quote(id))
	}, client.UnsafeDisableDeepCopy)
}

func (s *shadowSlices) ofConsumer(ctx context.Context, id string) []reconcile.Request {
	if id == "" {
		return nil
	}
	return s.requestsFor(ctx, client.MatchingLabels{names.OffloadingOrigin: id})
}

// allRequests returns all ShadowEndpointSlices: in a flat network, addresses in use by this cluster are not the consumer's.
func (s *shadowSlices) allRequests(ctx context.Context, _ client.Object) []reconcile.Request {
	return s.requestsFor(ctx)
}

func (s *shadowSlices) requestsFor(ctx context.Context, which ...client.ListOption) []reconcile.Request {
	return kube.Requests(ctx, s.client, &offv1beta1.ShadowEndpointSliceList{}, kube.Every, append(which, client.UnsafeDisableDeepCopy)...)
}
