// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

// Package agent is the code that node agents and gateway agents share: the objects they read, the loop that reconciles a network namespace, and the
// reporting of problems.
package agent

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	liqov1beta1 "liqo.io/liqo/api/core/v1beta1"
	ipamv1alpha1 "liqo.io/liqo/api/ipam/v1alpha1"
	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
	offv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/names"
	"liqo.io/liqo/internal/network/plan"
	"liqo.io/liqo/internal/peer"
)

// Sources selects the objects that an agent reads.
type Sources struct {
	// Home is the namespace of the installation.
	Home string
	// RoutesHere and FirewallsHere report whether a user's object is for this agent.
	RoutesHere, FirewallsHere func(metav1.Object) bool
	// Node is true for the agent of a node, which reads Nodes and Services too.
	Node bool
	// Own is the Lease of the reading gateway, which follows its election itself. For all Leases but Own, the holder is the active replica: no other
	// hop of a failover is as short.
	Own client.ObjectKey
}

// Kinds returns the kinds that an agent watches.
func (s Sources) Kinds() []client.Object {
	out := []client.Object{
		&networkingv1beta1.Configuration{}, &networkingv1beta1.GatewayServer{}, &networkingv1beta1.GatewayClient{},
		&networkingv1beta1.InternalNode{}, &networkingv1beta1.RouteConfiguration{}, &networkingv1beta1.FirewallConfiguration{},
		&ipamv1alpha1.IP{}, &ipamv1alpha1.Network{}, &coordinationv1.Lease{},
	}
	if s.Node {
		out = append(out, &corev1.Node{}, &corev1.Pod{}, &corev1.Service{}, &discoveryv1.EndpointSlice{})
	}
	return out
}

// Snapshot is the snapshot that Read returns.
type Snapshot struct {
	plan.Cluster
	Problems []plan.Problem
	// Objects are the objects of users, and all objects that can have a problem.
	Objects map[plan.Object]client.Object
	// Gateways of this cluster for all peers, sorted by name, because the order of a cache varies.
	Gateways []Gateway
	// Routes and Firewalls are the users' objects that are for this agent.
	Routes    []*networkingv1beta1.RouteConfiguration
	Firewalls []*networkingv1beta1.FirewallConfiguration
}

// Gateway is where a gateway runs.
type Gateway struct {
	Tunnel plan.Tunnel
	Node   string // empty while no replica runs
}

// Read returns the snapshot. An invalid object becomes a problem of that object and does not stop the reading of the
// rest.
func (s Sources) Read(ctx context.Context, c client.Reader) (*Snapshot, error) {
	out := &Snapshot{Objects: map[plan.Object]client.Object{}}
	reads := []func(context.Context, client.Reader, *Snapshot) error{s.readPeers, s.readGateways, s.readInternalNodes, s.readIPs, s.readUserConfigurations}
	if s.Node {
		reads = append(reads, s.readNodes, s.readServices)
	}
	for _, read := range reads {
		if err := read(ctx, c, out); err != nil {
			return nil, err
		}
	}
	return out, nil
}

func (s *Snapshot) addProblems(of plan.Object, obj client.Object, problems []plan.Problem) {
	s.Objects[of] = obj
	s.Problems = append(s.Problems, problems...)
}

func (s Sources) readPeers(ctx context.Context, c client.Reader, out *Snapshot) error {
	var list networkingv1beta1.ConfigurationList
	if err := c.List(ctx, &list); err != nil {
		return fmt.Errorf("listing Configurations: %w", err)
	}
	for i := range list.Items {
		c := &list.Items[i]
		p, ready, problems := plan.PeerOf(c)
		out.addProblems(p.Of, c, problems)
		// A second Configuration of the same cluster is ignored: the controller that allocates networks
		// reports the precedence.
		if ready && peer.Configuration(list.Items, liqov1beta1.ClusterID(p.Key.ClusterID)) == c {
			out.Peers = append(out.Peers, p)
		}
	}
	return nil
}

func (s Sources) readGateways(ctx context.Context, c client.Reader, out *Snapshot) error {
	var servers networkingv1beta1.GatewayServerList
	if err := c.List(ctx, &servers); err != nil {
		return fmt.Errorf("listing GatewayServers: %w", err)
	}
	holders, err := s.readHolders(ctx, c)
	if err != nil {
		return err
	}
	for i := range servers.Items {
		status := &servers.Items[i].Status
		status.InternalEndpoint = activeReplica(&servers.Items[i], status.InternalEndpoint, status.Replicas, holders)
		t, stays, problems := plan.TunnelOfServer(&servers.Items[i])
		out.addGateway(t, &servers.Items[i], servers.Items[i].Status.InternalEndpoint, stays, problems)
	}
	var clients networkingv1beta1.GatewayClientList
	if err := c.List(ctx, &clients); err != nil {
		return fmt.Errorf("listing GatewayClients: %w", err)
	}
	for i := range clients.Items {
		status := &clients.Items[i].Status
		status.InternalEndpoint = activeReplica(&clients.Items[i], status.InternalEndpoint, status.Replicas, holders)
		t, stays, problems := plan.TunnelOfClient(&clients.Items[i])
		out.addGateway(t, &clients.Items[i], clients.Items[i].Status.InternalEndpoint, stays, problems)
	}
	slices.SortFunc(out.Gateways, func(a, b Gateway) int { return cmp.Compare(a.Tunnel.Of.String(), b.Tunnel.Of.String()) })
	return nil
}

// readHolders returns the holders of the Leases of other gateways with several replicas.
func (s Sources) readHolders(ctx context.Context, c client.Reader) (map[client.ObjectKey]string, error) {
	out := map[client.ObjectKey]string{}
	var leases coordinationv1.LeaseList
	if err := c.List(ctx, &leases); err != nil {
		return nil, fmt.Errorf("listing Leases of gateways: %w", err)
	}
	for i := range leases.Items {
		if key, holder := client.ObjectKeyFromObject(&leases.Items[i]), leases.Items[i].Spec.HolderIdentity; holder != nil && key != s.Own {
			out[key] = *holder
		}
	}
	return out, nil
}

// activeReplica returns where the holder of the Lease of a gateway runs, if the controller-manager knows that replica; else the published endpoint.
func activeReplica(
	of client.Object, published *networkingv1beta1.InternalGatewayEndpoint, replicas []networkingv1beta1.GatewayReplica, holders map[client.ObjectKey]string,
) *networkingv1beta1.InternalGatewayEndpoint {
	holder := holders[client.ObjectKey{Namespace: of.GetNamespace(), Name: names.Gateway(of.GetName())}]
	for _, r := range replicas {
		if r.Name == holder {
			return &networkingv1beta1.InternalGatewayEndpoint{IP: &r.IP, Node: &r.Node}
		}
	}
	return published
}

func (s *Snapshot) addGateway(t plan.Tunnel, obj client.Object, at *networkingv1beta1.InternalGatewayEndpoint, stays bool, problems []plan.Problem) {
	s.addProblems(t.Of, obj, problems)
	if !stays {
		return
	}
	s.Tunnels = append(s.Tunnels, t)
	g := Gateway{Tunnel: t}
	if at != nil && at.Node != nil {
		g.Node = *at.Node
	}
	s.Gateways = append(s.Gateways, g)
}

func (s Sources) readInternalNodes(ctx context.Context, c client.Reader, out *Snapshot) error {
	var list networkingv1beta1.InternalNodeList
	if err := c.List(ctx, &list); err != nil {
		return fmt.Errorf("listing InternalNodes: %w", err)
	}
	for i := range list.Items {
		m, problems := plan.MemberOf(&list.Items[i])
		out.addProblems(m.Of, &list.Items[i], problems)
		out.Members = append(out.Members, m)
	}
	return nil
}

// readNodes reads the node addresses, which no peer may be translated to.
func (s Sources) readNodes(ctx context.Context, c client.Reader, out *Snapshot) error {
	var nodes corev1.NodeList
	if err := c.List(ctx, &nodes); err != nil {
		return fmt.Errorf("listing Nodes: %w", err)
	}
	for i := range nodes.Items {
		out.Taken = append(out.Taken, plan.TakenByNode(&nodes.Items[i])...)
	}
	return nil
}

func (s Sources) readIPs(ctx context.Context, c client.Reader, out *Snapshot) error {
	var networks ipamv1alpha1.NetworkList
	if err := c.List(ctx, &networks); err != nil {
		return fmt.Errorf("listing Networks: %w", err)
	}
	var problems, more []plan.Problem
	out.Pods, out.Services, out.External, problems = plan.Own(networks.Items, s.Home)
	if s.Node {
		out.Held, more = plan.Held(networks.Items)
	}
	out.Problems = slices.Concat(out.Problems, problems, more)
	var ips ipamv1alpha1.IPList
	if err := c.List(ctx, &ips, client.UnsafeDisableDeepCopy); err != nil { // thousands; nothing writes to them
		return fmt.Errorf("listing IPs: %w", err)
	}
	for i := range ips.Items {
		alias, ready, problems := plan.AliasOf(&ips.Items[i])
		out.addProblems(alias.Of, &ips.Items[i], problems)
		if ready {
			out.Aliases = append(out.Aliases, alias)
		}
	}
	return nil
}

// isPublished reports whether a translated IP may stand for a Service: only the Services of the API server
// and of its proxy.
func (s Sources) isPublished(service *corev1.Service) bool {
	switch client.ObjectKeyFromObject(service) {
	case client.ObjectKey{Namespace: metav1.NamespaceDefault, Name: names.APIServerService}, client.ObjectKey{Namespace: s.Home, Name: names.ProxyService}:
		return true
	}
	return false
}

// readServices reads the Services whose addresses may be published to peers. The cache holds more Services only where both are
// in one namespace.
func (s Sources) readServices(ctx context.Context, c client.Reader, out *Snapshot) error {
	var list corev1.ServiceList
	if err := c.List(ctx, &list); err != nil {
		return fmt.Errorf("listing Services: %w", err)
	}
	for i := range list.Items {
		service := &list.Items[i]
		if !s.isPublished(service) {
			continue
		}
		var behind discoveryv1.EndpointSliceList
		if err := c.List(ctx, &behind, client.InNamespace(service.Namespace), client.MatchingLabels{discoveryv1.LabelServiceName: service.Name}); err != nil {
			return fmt.Errorf("listing EndpointSlices: %w", err)
		}
		out.ClusterIPs = append(out.ClusterIPs, plan.ServiceOf(service, behind.Items))
	}
	return nil
}

// readUserConfigurations reads the RouteConfigurations and FirewallConfigurations for this agent.
func (s Sources) readUserConfigurations(ctx context.Context, c client.Reader, out *Snapshot) error {
	var routes networkingv1beta1.RouteConfigurationList
	if err := c.List(ctx, &routes); err != nil {
		return fmt.Errorf("listing RouteConfigurations: %w", err)
	}
	for i := range routes.Items {
		if r := &routes.Items[i]; s.RoutesHere(r) {
			routing, problems := plan.RoutingOf(r)
			out.addProblems(routing.Of, r, problems)
			out.Routings, out.Routes = append(out.Routings, routing), append(out.Routes, r)
		}
	}
	var firewalls networkingv1beta1.FirewallConfigurationList
	if err := c.List(ctx, &firewalls); err != nil {
		return fmt.Errorf("listing FirewallConfigurations: %w", err)
	}
	for i := range firewalls.Items {
		if f := &firewalls.Items[i]; s.FirewallsHere(f) {
			firewall, problems := plan.FirewallOf(f)
			out.addProblems(firewall.Of, f, problems)
			out.Cluster.Firewalls, out.Firewalls = append(out.Cluster.Firewalls, firewall), append(out.Firewalls, f)
		}
	}
	return nil
}

// Matters reports whether a change concerns an agent. Not relevant are heartbeats of nodes, statuses of other agents, the peers reached by nodes, the
// reason of a missing address, and the reports of peers, because peers may write reports at any rate.
func Matters(old, now client.Object) bool {
	switch now := now.(type) {
	case *corev1.Node:
		was := old.(*corev1.Node)
		return !slices.Equal(was.Status.Addresses, now.Status.Addresses) || !slices.Equal(was.Spec.PodCIDRs, now.Spec.PodCIDRs)
	case *corev1.Pod:
		was := old.(*corev1.Pod)
		return !slices.Equal(was.Status.PodIPs, now.Status.PodIPs) || was.Status.Phase != now.Status.Phase || !maps.Equal(was.Labels, now.Labels)
	case *corev1.Namespace:
		return !maps.Equal(old.GetLabels(), now.Labels) || !maps.Equal(old.GetAnnotations(), now.Annotations)
	case *offv1beta1.NamespaceOffloading:
		return false // it only has to exist
	case *networkingv1beta1.Configuration:
		return peer.NetworksChanged(old.(*networkingv1beta1.Configuration), now)
	case *networkingv1beta1.GatewayServer:
		was, is := old.(*networkingv1beta1.GatewayServer).Status, now.Status
		return specChanged(old, now) || was.MTU != is.MTU || !apiequality.Semantic.DeepEqual(was.InternalEndpoint, is.InternalEndpoint) || !slices.Equal(was.Replicas, is.Replicas)
	case *networkingv1beta1.GatewayClient:
		was, is := old.(*networkingv1beta1.GatewayClient).Status, now.Status
		return specChanged(old, now) || was.MTU != is.MTU || !apiequality.Semantic.DeepEqual(was.InternalEndpoint, is.InternalEndpoint) || !slices.Equal(was.Replicas, is.Replicas)
	case *networkingv1beta1.InternalNode:
		was, is := old.(*networkingv1beta1.InternalNode).Status, now.Status
		was.Peers, is.Peers = nil, nil
		was.Conditions, is.Conditions = nil, nil
		return specChanged(old, now) || !apiequality.Semantic.DeepEqual(was, is)
	case *coordinationv1.Lease:
		return !apiequality.Semantic.DeepEqual(old.(*coordinationv1.Lease).Spec.HolderIdentity, now.Spec.HolderIdentity)
	case *ipamv1alpha1.Network:
		return old.(*ipamv1alpha1.Network).Status.CIDR != now.Status.CIDR || !maps.Equal(old.GetLabels(), now.GetLabels())
	case *networkingv1beta1.RouteConfiguration, *networkingv1beta1.FirewallConfiguration:
		return specChanged(old, now)
	}
	return true
}

// specChanged reports whether the spec or the labels changed, or the object is being deleted now.
func specChanged(old, now client.Object) bool {
	return old.GetGeneration() != now.GetGeneration() || !maps.Equal(old.GetLabels(), now.GetLabels()) ||
		(old.GetDeletionTimestamp() == nil) != (now.GetDeletionTimestamp() == nil)
}
