// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package virtualkubelet

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	liqov1beta1 "liqo.io/liqo/api/core/v1beta1"
	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/names"
	"liqo.io/liqo/internal/peer"
	"liqo.io/liqo/internal/prefix"
	"liqo.io/liqo/internal/virtualkubelet/translate"
)

// networkState translates addresses between the provider and this cluster, both ways.
type networkState struct {
	client  client.Client
	options Options
	// changed is called for each pod of the node, and slices once, when the translation changes.
	changed func(pod client.ObjectKey)
	slices  func()
	shown   *publishedIPs
	// enqueued is the state of the network at the last enqueuing of the pods; nil is none. Used by one worker.
	enqueued *networkReach

	mu sync.Mutex
	// last is the prefix map of the last Configuration, with previous prefixes for waiting networks, and lastOf the UID of this Configuration.
	last   prefix.Map
	lastOf types.UID
}

// networkReach is the state of the network to the provider.
type networkReach struct {
	// enabled: a network is set up. It need not work at this moment: addresses stay the same.
	enabled bool
	// down: the network does not work at this moment. Nothing is reflected again for that.
	down bool
	// described: there is a Configuration; placed: the provider's networks are, or were, mapped to local prefixes by peer.
	described, placed bool
	peer              prefix.Map
	// pods are the networks of the pods of this cluster.
	pods []netip.Prefix
	// others are the networks of the pods of other peers, by cluster ID.
	others map[string]prefix.Map
	// direct: the provider maps endpoints of other peers itself.
	direct bool
}

// isEqual reports whether pods are reflected alike.
func (r networkReach) isEqual(o networkReach) bool {
	return r.enabled == o.enabled && r.described == o.described && r.placed == o.placed && r.peer.Equal(o.peer) && slices.Equal(r.pods, o.pods)
}

// hasEqualOthers reports whether the endpoints of other peers are reflected alike.
func (r networkReach) hasEqualOthers(o networkReach) bool {
	return r.direct == o.direct && maps.EqualFunc(r.others, o.others, prefix.Map.Equal)
}

func setupNetwork(ctx context.Context, mgr ctrl.Manager, n *networkState) error {
	// Pods are reflected only after this cache has synced: a restart must not remove an address.
	for _, obj := range []client.Object{&liqov1beta1.ForeignCluster{}, &networkingv1beta1.Configuration{}} {
		if _, err := mgr.GetCache().GetInformer(ctx, obj, cache.BlockUntilSynced(false)); err != nil {
			return fmt.Errorf("watching the network objects: %w", err)
		}
	}
	one := func(context.Context, client.Object) []reconcile.Request {
		return []reconcile.Request{{NamespacedName: types.NamespacedName{Name: string(n.options.Provider)}}}
	}
	b := ctrl.NewControllerManagedBy(mgr).Named("provider-network").For(&liqov1beta1.ForeignCluster{}).
		Watches(&networkingv1beta1.Configuration{}, handler.EnqueueRequestsFromMapFunc(one), builder.WithPredicates(peer.NetworksPredicate))
	if err := b.Complete(n); err != nil {
		return fmt.Errorf("registering the controller of the network: %w", err)
	}
	return nil
}

// readReach reads the present state. Networks under remapping keep their previous prefixes: no running pod loses its
// address by a remapping.
func (n *networkState) readReach(ctx context.Context) (networkReach, error) {
	var r networkReach
	foreign := &liqov1beta1.ForeignCluster{}
	err := n.client.Get(ctx, types.NamespacedName{Name: string(n.options.Provider)}, foreign)
	if err := client.IgnoreNotFound(err); err != nil {
		return r, fmt.Errorf("reading the foreign cluster: %w", err)
	}
	r.enabled, r.pods = foreign.Status.Modules.Networking.Enabled, n.options.LocalPods
	r.direct = slices.Contains(foreign.Status.Capabilities, peer.DirectConnections)
	established, checked := networkUp(nodeFacts{checkNetwork: true, peer: foreign})
	r.down = r.enabled && checked && !established
	var all networkingv1beta1.ConfigurationList
	if err := n.client.List(ctx, &all); err != nil {
		return r, fmt.Errorf("listing the network configurations: %w", err)
	}
	r.others = podsOfOthers(all.Items, n.options.Provider)
	configuration := peer.Configuration(all.Items, n.options.Provider)
	if configuration == nil || !r.enabled {
		return r, nil
	}
	r.described = true
	if local := configuration.Spec.Local; local != nil {
		pods, err := prefix.Prefixes(local.CIDR.Pod)
		if err != nil {
			log.FromContext(ctx).V(1).Info("no networks of local pods", "reason", err.Error())
		}
		r.pods = slices.Concat(r.pods, pods)
	}
	r.peer, r.placed = n.prefixMapOf(ctx, configuration)
	return r, nil
}

// podsOfOthers returns the networks of the pods of all peers but one, by cluster ID.
func podsOfOthers(all []networkingv1beta1.Configuration, provider liqov1beta1.ClusterID) map[string]prefix.Map {
	out := map[string]prefix.Map{}
	for i := range all {
		id := liqov1beta1.ClusterID(all[i].Labels[names.RemoteClusterID])
		if id == "" || id == provider || peer.Configuration(all, id) != &all[i] {
			continue
		}
		if pods, placed := prefix.PodsOf(&all[i]); placed {
			out[string(id)] = pods
		}
	}
	return out
}

func (n *networkState) prefixMapOf(ctx context.Context, c *networkingv1beta1.Configuration) (prefix.Map, bool) {
	now, placed, err := prefix.Of(c)
	if err != nil {
		log.FromContext(ctx).V(1).Info("the networks of the provider are not remapped", "reason", err.Error())
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if placed && n.lastOf == c.UID {
		now = now.KeepPairs(n.last)
	}
	if placed {
		n.last, n.lastOf = now, c.UID
	}
	return n.last, n.lastOf == c.UID && c.UID != ""
}

// podIPs returns the translation of the addresses of the provider's pods to local ones.
func (n *networkState) podIPs(ctx context.Context) (translate.PodIPs, error) {
	r, err := n.readReach(ctx)
	if err != nil {
		return translate.PodIPs{}, err
	}
	return translate.PodIPs{Keep: r.described && !r.placed, Peer: r.peer}, nil
}

// addressesIn returns the translation of local addresses for the provider, in slices of a namespace. Without a network all mean
// the same in both clusters, or nothing.
func (n *networkState) addressesIn(ctx context.Context, namespace string) (translate.Addresses, error) {
	r, err := n.readReach(ctx)
	switch {
	case err != nil:
		return translate.Addresses{}, err
	case r.enabled && !r.placed:
		return translate.Addresses{}, kube.Wait(0, "the networks of the provider are not remapped yet")
	case r.enabled && len(r.pods) == 0:
		return translate.Addresses{}, kube.Wait(0, "the networks of the local pods are not known yet")
	}
	exposed, err := n.shown.translationsIn(ctx, namespace)
	return translate.Addresses{Pods: r.pods, Peer: r.peer, Others: r.others, Direct: r.direct, Exposed: exposed}, err
}

// readRoute returns how pods in the provider reach the API server of this cluster, nil for not at all, and whether the path works now.
func (n *networkState) readRoute(ctx context.Context) (route *translate.APIServerRoute, works bool, err error) {
	o := n.options
	switch {
	case !o.APIServerSupport:
		return nil, false, nil
	case o.APIServerHost != "":
		return &translate.APIServerRoute{Host: o.APIServerHost, Port: o.APIServerPort}, true, nil
	}
	r, err := n.readReach(ctx)
	if err != nil || !r.enabled {
		return nil, false, err
	}
	at, err := n.shown.atAPIServer(ctx)
	if err != nil {
		return nil, false, err
	}
	if !at.IsValid() {
		return nil, false, kube.Wait(unseenDelay, "the API server of this cluster has no translated IP yet")
	}
	return &translate.APIServerRoute{Host: names.APIServerHost, Port: o.APIServerPort, Addr: at}, !r.down, nil
}

func (n *networkState) Reconcile(ctx context.Context, _ reconcile.Request) (reconcile.Result, error) {
	now, err := n.readReach(ctx)
	same := n.enqueued != nil && n.enqueued.isEqual(now)
	if err != nil || same && n.enqueued.hasEqualOthers(now) {
		return reconcile.Result{}, err
	}
	if !same {
		if err := n.lookAtPods(ctx); err != nil {
			return reconcile.Result{}, err
		}
	}
	n.slices()
	n.enqueued = &now
	return reconcile.Result{}, nil
}

// lookAtPods enqueues all pods of the node, the oldest first: refused pods may be requested again, and the provider
// accepts the first requests.
func (n *networkState) lookAtPods(ctx context.Context) error {
	var pods corev1.PodList
	if err := n.client.List(ctx, &pods); err != nil {
		return fmt.Errorf("listing the pods of the node: %w", err)
	}
	slices.SortFunc(pods.Items, byAge)
	for i := range pods.Items {
		n.changed(client.ObjectKeyFromObject(&pods.Items[i]))
	}
	return nil
}

func byAge(a, b corev1.Pod) int {
	return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
}
