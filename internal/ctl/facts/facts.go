// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

// Package facts reads the objects for the rules of package diagnose. A kind that cannot be listed is unreadable; rules for this kind are not applied.
package facts

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	authv1beta1 "liqo.io/liqo/api/authentication/v1beta1"
	liqov1beta1 "liqo.io/liqo/api/core/v1beta1"
	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
	offv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/ctl/cluster"
	"liqo.io/liqo/internal/ctl/diagnose"
	"liqo.io/liqo/internal/names"
)

// Reader reads facts of one cluster.
type Reader struct {
	Client client.Reader
	Facts  *diagnose.Facts
}

// NewReader returns a reader of new facts about a cluster.
func NewReader(c client.Reader, namespace string) *Reader {
	return &Reader{Client: c, Facts: &diagnose.Facts{Namespace: namespace, CLIVersion: cluster.Version, Unreadable: map[string]string{}}}
}

// Kind is a list to read. Name is the key in Facts.Unreadable.
type Kind struct {
	Name string
	List client.ObjectList
	Opts []client.ListOption
}

// List reads lists. It fails only at the end of ctx.
func (r *Reader) List(ctx context.Context, kinds ...Kind) error {
	for _, kind := range kinds {
		if err := r.noteError(ctx, kind.Name, r.Client.List(ctx, kind.List, kind.Opts...)); err != nil {
			return err
		}
	}
	return nil
}

// Get reads one object and reports whether it exists. It fails only at the end of ctx.
func (r *Reader) Get(ctx context.Context, kind string, key client.ObjectKey, obj client.Object) (bool, error) {
	err := r.Client.Get(ctx, key, obj)
	if client.IgnoreNotFound(err) == nil {
		return err == nil, nil
	}
	return false, r.noteError(ctx, kind, err)
}

// noteError records why a kind is unreadable, and returns the error if ctx has ended.
func (r *Reader) noteError(ctx context.Context, kind string, err error) error {
	if err != nil && ctx.Err() != nil {
		return err
	}
	if err != nil {
		r.Facts.Unreadable[kind] = cluster.DescribeError(err)
	}
	return nil
}

// ListPeerings reads the kinds of peerings, and the nodes.
func (r *Reader) ListPeerings(ctx context.Context) error {
	var nodes corev1.NodeList
	var namespaces corev1.NamespaceList
	var peers liqov1beta1.ForeignClusterList
	var configurations networkingv1beta1.ConfigurationList
	var servers networkingv1beta1.GatewayServerList
	var clients networkingv1beta1.GatewayClientList
	var connections networkingv1beta1.ConnectionList
	var keys networkingv1beta1.PublicKeyList
	var tenants authv1beta1.TenantList
	var slices authv1beta1.ResourceSliceList
	var virtual offv1beta1.VirtualNodeList
	err := r.List(ctx,
		Kind{"Node", &nodes, nil},
		Kind{"Namespace", &namespaces, []client.ListOption{client.MatchingLabels{names.TenantNamespace: "true"}}},
		Kind{"ForeignCluster", &peers, nil},
		Kind{"Configuration", &configurations, nil},
		Kind{"GatewayServer", &servers, nil},
		Kind{"GatewayClient", &clients, nil},
		Kind{"Connection", &connections, nil},
		Kind{"PublicKey", &keys, nil},
		Kind{"Tenant", &tenants, nil},
		Kind{"ResourceSlice", &slices, nil},
		Kind{"VirtualNode", &virtual, nil},
	)
	f := r.Facts
	f.Nodes, f.Namespaces, f.Peers = nodes.Items, namespaces.Items, peers.Items
	f.Configurations, f.Servers, f.Clients, f.Connections, f.PublicKeys = configurations.Items, servers.Items, clients.Items, connections.Items, keys.Items
	f.Tenants, f.Slices, f.VirtualNodes = tenants.Items, slices.Items, virtual.Items
	return err
}

// ListOffloadedPods reads the pods on virtual nodes.
func (r *Reader) ListOffloadedPods(ctx context.Context) error {
	var pods corev1.PodList
	err := r.List(ctx, Kind{"Pod", &pods, []client.ListOption{client.MatchingLabels{names.ShadowPod: "true"}}})
	r.Facts.OffloadedPods = pods.Items
	return err
}
