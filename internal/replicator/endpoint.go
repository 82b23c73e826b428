// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package replicator

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	liqov1beta1 "liqo.io/liqo/api/core/v1beta1"
	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"

	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/multicluster"
	"liqo.io/liqo/internal/names"
	"liqo.io/liqo/internal/policy"
)

// endpointKinds report the servers' endpoints of one cluster to the clients of the other. Only this process reaches both API
// servers, and it reports in both directions: to local clients, and to the peer's clients. The endpoint is the only field of
// the peer's clients that the peer permits to write.
func (l *link) endpointKinds() []multicluster.Kind {
	ours, theirs := endpointReporter{}, endpointReporter{}
	return []multicluster.Kind{{
		Name: "gatewayclients", Workers: 1,
		Local:  []multicluster.Source{gatewaysTo(l.ends.peer, &networkingv1beta1.GatewayClient{}, false)},
		Remote: []multicluster.Source{gatewaysTo(l.ends.local, &networkingv1beta1.GatewayServer{}, true)},
		Sync: func(ctx context.Context, it *multicluster.Item) error {
			return ours.reportEndpoints(ctx, it.Remote, it.Local)
		},
	}, {
		Name: "gatewayservers", Workers: 1,
		Local:  []multicluster.Source{gatewaysTo(l.ends.peer, &networkingv1beta1.GatewayServer{}, false)},
		Remote: []multicluster.Source{gatewaysTo(l.ends.local, &networkingv1beta1.GatewayClient{}, true)},
		Sync: func(ctx context.Context, it *multicluster.Item) error {
			return theirs.reportEndpoints(ctx, it.Local, it.Remote)
		},
	}}
}

// gatewaysTo selects the gateways to a cluster, as one item. An older peer grants no permission to read them.
func gatewaysTo(cluster liqov1beta1.ClusterID, kind client.Object, optional bool) multicluster.Source {
	return multicluster.Source{
		Object: kind, Labels: names.RemoteClusterID + "=" + string(cluster), Optional: optional,
		Key: func(client.Object) string { return "tunnel" },
	}
}

// endpointReporter is the last report to each client. If both clusters reach each other, both run a reporter, and one may see less of the
// other cluster: each reports a change once, and neither reverts the other's. All gateways are one item: no lock is needed.
type endpointReporter map[types.UID]*networkingv1beta1.EndpointStatus

// isReported reports whether a client needs no report: the last one was equal, and the client has an endpoint.
func (t endpointReporter) isReported(c *networkingv1beta1.GatewayClient, want *networkingv1beta1.EndpointStatus) bool {
	return c.Status.Endpoint != nil && equality.Semantic.DeepEqual(t[c.UID], want)
}

// keepReported forgets all clients but these.
func (t endpointReporter) keepReported(clients []networkingv1beta1.GatewayClient) {
	maps.DeleteFunc(t, func(uid types.UID, _ *networkingv1beta1.EndpointStatus) bool {
		return !slices.ContainsFunc(clients, func(c networkingv1beta1.GatewayClient) bool { return c.UID == uid })
	})
}

// reportEndpoints reports the server's endpoint in one cluster to the clients in the other.
func (t endpointReporter) reportEndpoints(ctx context.Context, from, to multicluster.Cluster) error {
	var servers networkingv1beta1.GatewayServerList
	var clients networkingv1beta1.GatewayClientList
	if err := errors.Join(from.List(&servers), to.List(&clients)); err != nil {
		return fmt.Errorf("listing gateways: %w", err)
	}
	server := serverEndpoint(servers.Items)
	if server == nil {
		return nil // the previous report stays: the report may still be valid, and no newer report exists
	}
	t.keepReported(clients.Items)
	var errs []error
	for i := range clients.Items {
		c := &clients.Items[i]
		if t.isReported(c, server) {
			continue
		}
		if err := writeEndpoint(ctx, to.Client(), c, server); err != nil {
			errs = append(errs, err)
			continue
		}
		t[c.UID] = server
	}
	return errors.Join(errs...)
}

// writeEndpoint patches only that field: the peer would reject a patch of another field.
func writeEndpoint(ctx context.Context, c client.Client, gateway *networkingv1beta1.GatewayClient, want *networkingv1beta1.EndpointStatus) error {
	if equality.Semantic.DeepEqual(gateway.Status.Endpoint, want) {
		return nil
	}
	before := gateway.DeepCopy()
	gateway.Status.Endpoint = want.DeepCopy()
	if err := client.IgnoreNotFound(c.Status().Patch(ctx, gateway, client.MergeFrom(before))); err != nil {
		err = fmt.Errorf("writing the server's endpoint to GatewayClient %s: %w", before.Name, err)
		if apierrors.IsInvalid(err) {
			return kube.Invalid(reasonInvalidStatus, err)
		}
		return err
	}
	return nil
}

// serverEndpoint returns the endpoint of the first server with an endpoint, running servers first, the precedence of the nodes; nil for
// none.
func serverEndpoint(servers []networkingv1beta1.GatewayServer) *networkingv1beta1.EndpointStatus {
	says := func(g *networkingv1beta1.GatewayServer) bool { return policy.PeerEndpoint(g.Status.Endpoint) != nil }
	runs := func(g *networkingv1beta1.GatewayServer) bool { return says(g) && g.Status.InternalEndpoint != nil }
	first := cmp.Or(policy.Oldest(servers, runs), policy.Oldest(servers, says))
	if first == nil {
		return nil
	}
	return policy.PeerEndpoint(first.Status.Endpoint)
}
