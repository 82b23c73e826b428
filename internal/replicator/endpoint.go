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

// endpointKinds tell the clients of one cluster where the servers of the other one are. Only this end reaches both API servers,
// so it carries what there is to say both ways: to our clients, which we write, and to those of the peer, of which it lets us
// write nothing else.
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

// gatewaysTo are those that lead to a cluster, as one item. A peer that is older gives no right to read them.
func gatewaysTo(cluster liqov1beta1.ClusterID, kind client.Object, optional bool) multicluster.Source {
	return multicluster.Source{
		Object: kind, Labels: names.RemoteClusterID + "=" + string(cluster), Optional: optional,
		Key: func(client.Object) string { return "tunnel" },
	}
}

// endpointReporter is what each client was told. Where both clusters reach each other both have one, and one may see less of the other cluster
// than the other does: each tells what is new to it once, and none takes back what the other one says. All gateways are one
// item, so it needs no lock.
type endpointReporter map[types.UID]*networkingv1beta1.EndpointStatus

// hasTold tells whether there is nothing to say to a client: it was told the same, and says something.
func (t endpointReporter) hasTold(c *networkingv1beta1.GatewayClient, want *networkingv1beta1.EndpointStatus) bool {
	return c.Status.Endpoint != nil && equality.Semantic.DeepEqual(t[c.UID], want)
}

// keepReported forgets all clients but these.
func (t endpointReporter) keepReported(clients []networkingv1beta1.GatewayClient) {
	maps.DeleteFunc(t, func(uid types.UID, _ *networkingv1beta1.EndpointStatus) bool {
		return !slices.ContainsFunc(clients, func(c networkingv1beta1.GatewayClient) bool { return c.UID == uid })
	})
}

// reportEndpoints tells the clients of one side where the server of the other one is.
func (t endpointReporter) reportEndpoints(ctx context.Context, from, to multicluster.Cluster) error {
	var servers networkingv1beta1.GatewayServerList
	var clients networkingv1beta1.GatewayClientList
	if err := errors.Join(from.List(&servers), to.List(&clients)); err != nil {
		return fmt.Errorf("listing gateways: %w", err)
	}
	server := saidBy(servers.Items)
	if server == nil {
		return nil // what was said before stays: it may still be true, and nothing better is known
	}
	t.keepReported(clients.Items)
	var errs []error
	for i := range clients.Items {
		c := &clients.Items[i]
		if t.hasTold(c, server) {
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

// writeEndpoint writes that one field: the peer would refuse a patch of anything else.
func writeEndpoint(ctx context.Context, c client.Client, gateway *networkingv1beta1.GatewayClient, want *networkingv1beta1.EndpointStatus) error {
	if equality.Semantic.DeepEqual(gateway.Status.Endpoint, want) {
		return nil
	}
	before := gateway.DeepCopy()
	gateway.Status.Endpoint = want.DeepCopy()
	if err := client.IgnoreNotFound(c.Status().Patch(ctx, gateway, client.MergeFrom(before))); err != nil {
		err = fmt.Errorf("telling GatewayClient %s where its server is: %w", before.Name, err)
		if apierrors.IsInvalid(err) {
			return kube.Invalid(reasonInvalidStatus, err)
		}
		return err
	}
	return nil
}

// saidBy is where the first of these servers is that says so, one that runs before others, as nodes take them; nil while none does.
func saidBy(servers []networkingv1beta1.GatewayServer) *networkingv1beta1.EndpointStatus {
	says := func(g *networkingv1beta1.GatewayServer) bool { return policy.PeerEndpoint(g.Status.Endpoint) != nil }
	runs := func(g *networkingv1beta1.GatewayServer) bool { return says(g) && g.Status.InternalEndpoint != nil }
	first := cmp.Or(policy.Oldest(servers, runs), policy.Oldest(servers, says))
	if first == nil {
		return nil
	}
	return policy.PeerEndpoint(first.Status.Endpoint)
}
