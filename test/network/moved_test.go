// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package network

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/equality"
	"sigs.k8s.io/controller-runtime/pkg/client"

	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
	"liqo.io/liqo/test/clusters"
	"liqo.io/liqo/test/story"
)

// follows has the server of a tunnel move, as often as there are kinds of addresses. Its client follows, and nobody edits what the client was
// told first.
func follows(t *testing.T, tunnel *clusters.Tunnel, works func()) {
	t.Helper()
	wrote := theClient(t, tunnel).Spec
	for _, n := range nodes(t, b) { // of a run that was killed
		comeBack(t, n.Name)
	}
	for _, move := range []struct{ to, endpoint string }{
		{"another port of the nodes", fmt.Sprintf(`{"nodePort": %d}`, otherNodePort)},
		{"a load balancer", `{"serviceType": "LoadBalancer", "nodePort": null}`},
	} {
		before := theServer(t, tunnel).Status.Endpoint
		if before == nil {
			t.Fatal("the server has no endpoint")
		}
		kubectl(t, b, "", "patch", "gatewayserver", "-n", tunnel.ServerNamespace, "server", "--type", "merge", "-p", `{"spec": {"endpoint": `+move.endpoint+`}}`)
		eventually(t, "the client to be told", func(context.Context) error {
			now, reported := theServer(t, tunnel).Status.Endpoint, theClient(t, tunnel).Status.Endpoint
			if now == nil || equality.Semantic.DeepEqual(now, before) || !equality.Semantic.DeepEqual(now, reported) {
				return fmt.Errorf("the server is at %+v, was at %+v, and the client was told %+v", now, before, reported)
			}
			return nil
		})
		start := time.Now()
		for _, n := range nodes(t, b) {
			dropEndpoint(t, n.Name, before)
		}
		works()
		t.Logf("%s: works after %s", move.to, time.Since(start).Round(100*time.Millisecond))
	}
	if diff := cmp.Diff(wrote, theClient(t, tunnel).Spec); diff != "" {
		t.Errorf("the spec of the client changed: %s", diff)
	}
}

// isTold waits until the client of a tunnel has the endpoint of its server.
func isTold(t *testing.T, tunnel *clusters.Tunnel) {
	t.Helper()
	eventually(t, "the client to be told", func(context.Context) error {
		is, reported := theServer(t, tunnel).Status.Endpoint, theClient(t, tunnel).Status.Endpoint
		if is == nil || !equality.Semantic.DeepEqual(is, reported) {
			return fmt.Errorf("the server is at %+v, and the client was told %+v", is, reported)
		}
		return nil
	})
}

func theClient(t *testing.T, of *clusters.Tunnel) *networkingv1beta1.GatewayClient {
	t.Helper()
	var gw networkingv1beta1.GatewayClient
	if err := at(of.Client).Client.Get(t.Context(), client.ObjectKey{Namespace: of.ClientNamespace, Name: "client"}, &gw); err != nil {
		t.Fatal(err)
	}
	return &gw
}

func theServer(t *testing.T, of *clusters.Tunnel) *networkingv1beta1.GatewayServer {
	t.Helper()
	var gw networkingv1beta1.GatewayServer
	if err := at(of.Server).Client.Get(t.Context(), client.ObjectKey{Namespace: of.ServerNamespace, Name: "server"}, &gw); err != nil {
		t.Fatal(err)
	}
	return &gw
}

// dropEndpoint has a node drop what is sent to an endpoint: flows outlive the Service that made them.
func dropEndpoint(t *testing.T, node string, at *networkingv1beta1.EndpointStatus) {
	t.Helper()
	t.Cleanup(func() { comeBack(t, node) })
	if err := errors.Join(
		nft(node, "add", "table", "ip", "left"),
		nft(node, "add", "chain", "ip", "left", "in", "{ type filter hook prerouting priority -310 ; }"),
		nft(node, "add", "rule", "ip", "left", "in", fmt.Sprintf("ip daddr { %s } udp dport %d counter drop", strings.Join(at.Addresses, ", "), at.Port)),
	); err != nil {
		t.Fatal(err)
	}
}

// comeBack ends what leave did, if anything.
func comeBack(t *testing.T, node string) {
	t.Helper()
	if err := errors.Join(nft(node, "add", "table", "ip", "left"), nft(node, "delete", "table", "ip", "left")); err != nil {
		t.Error(err)
	}
}

func nft(node string, words ...string) error {
	return story.Playground(append([]string{"exec", node, "nft"}, words...)...)
}
