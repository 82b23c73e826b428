// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package peering

import (
	"context"
	"fmt"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	authv1beta1 "liqo.io/liqo/api/authentication/v1beta1"
	liqov1beta1 "liqo.io/liqo/api/core/v1beta1"
	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
	offv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/names"
	"liqo.io/liqo/internal/peer"
	"liqo.io/liqo/internal/policy"
)

// watchedKinds returns the kinds of which a peer's status is derived, besides Secrets.
func watchedKinds() []client.Object {
	all := []client.Object{
		&corev1.Namespace{},
		&corev1.Node{},
		&appsv1.Deployment{},
		&authv1beta1.Tenant{},
		&authv1beta1.Identity{},
		&offv1beta1.VirtualNode{},
		&networkingv1beta1.Configuration{},
		&networkingv1beta1.GatewayServer{},
		&networkingv1beta1.GatewayClient{},
		&networkingv1beta1.Connection{},
	}
	for _, kind := range peer.Replicated() {
		all = append(all, kind.Object)
	}
	return all
}

// peerView is the local knowledge about one peer.
type peerView struct {
	// own is the local version of Liqo.
	own string
	// namespaces are the tenant namespaces. They outlive a peering and do not count as part of it.
	namespaces []string

	tenants    []authv1beta1.Tenant
	identities []authv1beta1.Identity // for the control plane
	secrets    []corev1.Secret        // with control-plane credentials
	// replicated is the number of ResourceSlices and Renews, local or replicated.
	replicated    int
	namespaceMaps []offv1beta1.NamespaceMap // local or replicated

	virtualNodes []offv1beta1.VirtualNode
	nodes        []corev1.Node

	configurations []networkingv1beta1.Configuration
	servers        []networkingv1beta1.GatewayServer
	clients        []networkingv1beta1.GatewayClient
	connections    []networkingv1beta1.Connection

	// answer is the replicator's condition about the peer's API server, or nil.
	answer *liqov1beta1.Condition
	// now is the time for the expiry of certificates.
	now time.Time

	// deployments are the Deployments of virtual kubelets and gateways. The cache contains only those labelled as
	// created by our controllers.
	deployments map[types.NamespacedName]*appsv1.Deployment
}

// isEmpty tells whether nothing is left of the peering.
func (v *peerView) isEmpty() bool {
	return len(v.tenants)+len(v.identities)+len(v.secrets)+v.replicated+len(v.namespaceMaps)+len(v.virtualNodes)+len(v.nodes)+
		len(v.configurations)+len(v.servers)+len(v.clients)+len(v.connections) == 0
}

// peersOf returns the peers of an object, usually the same: named in its spec, in its label, and by its tenant namespace.
// A Secret counts only if the namespace agrees.
func peersOf(obj client.Object, ofNamespace func(string) liqov1beta1.ClusterID) []liqov1beta1.ClusterID {
	var out []liqov1beta1.ClusterID
	switch o := obj.(type) {
	case *corev1.Node:
		if o.Labels[names.NodeType] != names.NodeTypeVirtualNode {
			return nil
		}
	case *authv1beta1.Tenant:
		out = append(out, o.Spec.ClusterID)
	case *authv1beta1.Identity:
		out = append(out, o.Spec.ClusterID)
	case *offv1beta1.VirtualNode:
		out = append(out, o.Spec.ClusterID)
	case *corev1.Secret:
		return slices.DeleteFunc([]liqov1beta1.ClusterID{ofNamespace(o.Namespace)}, func(id liqov1beta1.ClusterID) bool {
			return id == "" || string(id) != o.Labels[names.RemoteClusterID]
		})
	}
	out = append(out, liqov1beta1.ClusterID(obj.GetLabels()[names.RemoteClusterID]))
	if out = knownPeers(out); len(out) == 0 {
		out = knownPeers(append(out, ofNamespace(obj.GetNamespace())))
	}
	return out
}

// knownPeers drops empty and repeated IDs.
func knownPeers(ids []liqov1beta1.ClusterID) []liqov1beta1.ClusterID {
	slices.Sort(ids)
	return slices.DeleteFunc(slices.Compact(ids), func(id liqov1beta1.ClusterID) bool { return id == "" })
}

// gatherView reads all objects of one peer from the caches.
func (f *foreignClusters) gatherView(ctx context.Context, id liqov1beta1.ClusterID) (*peerView, error) {
	v := &peerView{now: time.Now(), own: f.version, deployments: map[types.NamespacedName]*appsv1.Deployment{}}
	g := &gatherer{ctx: ctx, id: id, reader: f.client, ofNamespace: f.ofNamespace(ctx)}
	for _, ns := range collectList(g, &corev1.NamespaceList{}, func(l *corev1.NamespaceList) []corev1.Namespace { return l.Items }) {
		if ns.Labels[names.TenantNamespace] == "true" {
			v.namespaces = append(v.namespaces, ns.Name)
		}
	}
	v.tenants = collectList(g, &authv1beta1.TenantList{}, func(l *authv1beta1.TenantList) []authv1beta1.Tenant { return l.Items })
	v.identities = collectList(g, &authv1beta1.IdentityList{}, func(l *authv1beta1.IdentityList) []authv1beta1.Identity { return l.Items })
	v.identities = slices.DeleteFunc(v.identities, func(i authv1beta1.Identity) bool { return i.Spec.Type != authv1beta1.ControlPlaneIdentityType })
	v.replicated = len(collectList(g, &authv1beta1.ResourceSliceList{}, func(l *authv1beta1.ResourceSliceList) []authv1beta1.ResourceSlice { return l.Items })) +
		len(collectList(g, &authv1beta1.RenewList{}, func(l *authv1beta1.RenewList) []authv1beta1.Renew { return l.Items }))
	v.namespaceMaps = collectList(g, &offv1beta1.NamespaceMapList{}, func(l *offv1beta1.NamespaceMapList) []offv1beta1.NamespaceMap { return l.Items })
	v.virtualNodes = collectList(g, &offv1beta1.VirtualNodeList{}, func(l *offv1beta1.VirtualNodeList) []offv1beta1.VirtualNode { return l.Items })
	v.nodes = collectList(g, &corev1.NodeList{}, func(l *corev1.NodeList) []corev1.Node { return l.Items }, client.MatchingLabels{names.NodeType: names.NodeTypeVirtualNode})
	v.configurations = collectList(g, &networkingv1beta1.ConfigurationList{}, func(l *networkingv1beta1.ConfigurationList) []networkingv1beta1.Configuration { return l.Items })
	v.servers = collectList(g, &networkingv1beta1.GatewayServerList{}, func(l *networkingv1beta1.GatewayServerList) []networkingv1beta1.GatewayServer { return l.Items })
	v.clients = collectList(g, &networkingv1beta1.GatewayClientList{}, func(l *networkingv1beta1.GatewayClientList) []networkingv1beta1.GatewayClient { return l.Items })
	v.connections = collectList(g, &networkingv1beta1.ConnectionList{}, func(l *networkingv1beta1.ConnectionList) []networkingv1beta1.Connection { return l.Items })
	for _, namespace := range v.namespaces {
		g.collectSecrets(f, v, namespace)
	}
	v.sortObjects(id)
	for _, key := range v.deploymentKeys() {
		g.collectDeployment(v, key)
	}
	return v, g.err
}

// sortObjects puts the effective object first. The effective Connection is the Connection of the gateway in the namespace of the
// effective Configuration.
func (v *peerView) sortObjects(id liqov1beta1.ClusterID) {
	placed := peer.Configuration(v.configurations, id)
	gatewayRank := func(gateway client.Object, at *networkingv1beta1.InternalGatewayEndpoint) policy.Rank {
		r := policy.RankOf(gateway)
		r.Outside = placed != nil && gateway.GetNamespace() != placed.Namespace
		r.Idle = at == nil
		return r
	}
	serverRank := func(g *networkingv1beta1.GatewayServer) policy.Rank { return gatewayRank(g, g.Status.InternalEndpoint) }
	clientRank := func(g *networkingv1beta1.GatewayClient) policy.Rank { return gatewayRank(g, g.Status.InternalEndpoint) }
	inOrder(v.tenants, func(t *authv1beta1.Tenant) policy.Rank { return policy.RankOf(t) })
	inOrder(v.identities, func(i *authv1beta1.Identity) policy.Rank { return policy.RankOf(i) })
	inOrder(v.namespaceMaps, func(m *offv1beta1.NamespaceMap) policy.Rank { return policy.RankOf(m) })
	inOrder(v.servers, serverRank)
	inOrder(v.clients, clientRank)
	var lead client.Object
	switch {
	case len(v.clients) > 0 && (len(v.servers) == 0 || clientRank(&v.clients[0]).Compare(serverRank(&v.servers[0])) <= 0):
		lead = &v.clients[0]
	case len(v.servers) > 0:
		lead = &v.servers[0]
	}
	inOrder(v.connections, func(c *networkingv1beta1.Connection) policy.Rank {
		r := policy.RankOf(c)
		r.Idle = lead == nil || client.ObjectKeyFromObject(c) != gatewayOf(lead)
		return r
	})
}

func inOrder[T any, P object[T]](of []T, rank func(P) policy.Rank) {
	slices.SortFunc(of, func(a, b T) int { return rank(&a).Compare(rank(&b)) })
}

// gatherer reads until the first error.
type gatherer struct {
	ctx         context.Context
	id          liqov1beta1.ClusterID
	reader      client.Reader
	ofNamespace func(string) liqov1beta1.ClusterID
	err         error
}

type object[T any] interface {
	*T
	client.Object
}

// collectList lists a kind and keeps the objects of the peer.
func collectList[T any, L client.ObjectList, P object[T]](g *gatherer, list L, items func(L) []T, opts ...client.ListOption) []T {
	if g.err != nil {
		return nil
	}
	if err := g.reader.List(g.ctx, list, opts...); err != nil {
		g.err = fmt.Errorf("listing %T: %w", list, err)
		return nil
	}
	return slices.DeleteFunc(items(list), func(item T) bool {
		return !slices.Contains(peersOf(P(&item), g.ofNamespace), g.id)
	})
}

func (g *gatherer) collectSecrets(f *foreignClusters, v *peerView, namespace string) {
	if g.err != nil {
		return
	}
	var list corev1.SecretList
	if err := f.secrets.List(g.ctx, &list, client.InNamespace(namespace), client.MatchingLabels{names.RemoteClusterID: string(g.id)}); err != nil {
		g.err = fmt.Errorf("listing Secrets of %s: %w", namespace, err)
		return
	}
	v.secrets = append(v.secrets, list.Items...)
}

func (g *gatherer) collectDeployment(v *peerView, key types.NamespacedName) {
	if g.err != nil {
		return
	}
	var d appsv1.Deployment
	switch err := g.reader.Get(g.ctx, key, &d); {
	case err == nil:
		v.deployments[key] = &d
	case client.IgnoreNotFound(err) != nil:
		g.err = fmt.Errorf("reading Deployment %s: %w", key, err)
	}
}

func (v *peerView) deploymentKeys() []types.NamespacedName {
	var out []types.NamespacedName
	for i := range v.virtualNodes {
		out = append(out, kubeletOf(&v.virtualNodes[i]))
	}
	for i := range v.servers {
		out = append(out, gatewayOf(&v.servers[i]))
	}
	for i := range v.clients {
		out = append(out, gatewayOf(&v.clients[i]))
	}
	return out
}

func kubeletOf(vn *offv1beta1.VirtualNode) types.NamespacedName {
	return types.NamespacedName{Namespace: vn.Namespace, Name: names.VirtualKubelet(vn.Name)}
}

func gatewayOf(gateway client.Object) types.NamespacedName {
	return types.NamespacedName{Namespace: gateway.GetNamespace(), Name: names.Join("gw", gateway.GetName())}
}
