// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package network

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	liqov1beta1 "liqo.io/liqo/api/core/v1beta1"
	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
	"liqo.io/liqo/test/clusters"
	"liqo.io/liqo/test/story"
)

// A Connection is not Connected while packets between a node and its gateway get lost, though the tunnel has none of it: all of them, or
// only large ones; of one node, or of all; on their way there or back. What is dropped is what nodes forward for pods alone. The ForeignCluster
// says so, too.
func TestConnectionDownFabric(t *testing.T) {
	connect(t)
	var all []string
	for _, n := range nodes(t, a) {
		all = append(all, n.Name)
	}
	for _, name := range all {
		reaches(t, a, name, b.ID, networkingv1beta1.Connected)
	}
	connectionIs(t, a, "gw-client", networkingv1beta1.ConnectionStatus{Value: networkingv1beta1.Connected})

	foreignClusterSays(t, a, b.ID, liqov1beta1.ConditionEstablished)

	const to, from, large = `oifname "liqo.fabric"`, `iifname "liqo.fabric"`, " meta length > 1000"
	for name, test := range map[string]struct {
		on    []string // nodes
		which string   // packets, in the language of nft
		reach networkingv1beta1.ConnectionReach
		fc    liqov1beta1.ConditionStatus
	}{
		"all packets of a node":        {all[:1], to, networkingv1beta1.ReachSome, liqov1beta1.ConditionSomeNotReady},
		"all that comes to pods of it": {all[:1], from, networkingv1beta1.ReachSome, liqov1beta1.ConditionSomeNotReady},
		"large packets of a node":      {all[1:2], to + large, networkingv1beta1.ReachSome, liqov1beta1.ConditionSomeNotReady},
		"all packets of all nodes":     {all, to, networkingv1beta1.ReachNone, liqov1beta1.ConditionError},
		"large ones that come to any":  {all, from + large, networkingv1beta1.ReachNone, liqov1beta1.ConditionError},
	} {
		t.Log(name)
		for _, n := range test.on {
			dropForwarded(t, n, test.which)
		}
		failed := slices.Sorted(slices.Values(test.on))
		connectionIs(t, a, "gw-client", networkingv1beta1.ConnectionStatus{Value: networkingv1beta1.ConnectionError, Reach: test.reach, FailedNodes: failed})
		foreignClusterSays(t, a, b.ID, test.fc)
		for _, n := range test.on {
			reaches(t, a, n, b.ID, networkingv1beta1.ConnectionError)
			mend(t, n)
		}
		connectionIs(t, a, "gw-client", networkingv1beta1.ConnectionStatus{Value: networkingv1beta1.Connected})
		for _, n := range test.on {
			reaches(t, a, n, b.ID, networkingv1beta1.Connected)
		}
	}
}

// foreignClusterSays waits until the module of networking of a peer is so.
func foreignClusterSays(t *testing.T, c *clusters.Cluster, peer string, want liqov1beta1.ConditionStatus) {
	t.Helper()
	eventually(t, "the ForeignCluster "+peer, func(ctx context.Context) error {
		var fc liqov1beta1.ForeignCluster
		if err := c.Client.Get(ctx, client.ObjectKey{Name: peer}, &fc); err != nil {
			return err
		}
		for _, condition := range fc.Status.Modules.Networking.Conditions {
			if condition.Type == liqov1beta1.NetworkConnectionStatus && condition.Status == want {
				return nil
			}
		}
		return fmt.Errorf("it says %+v, want %s", fc.Status.Modules.Networking.Conditions, want)
	})
}

// dropForwarded drops what a node forwards from or to the fabric, as somebody else; what it sends itself passes, and the tunnel is not led that way.
func dropForwarded(t *testing.T, node, which string) {
	t.Helper()
	t.Cleanup(func() { _ = story.Playground("exec", node, "nft", "delete", "table", "ip", "loss") }) // it may be gone
	for _, words := range [][]string{
		{"add", "table", "ip", "loss"},
		{"add", "chain", "ip", "loss", "out", "{ type filter hook forward priority 300 ; }"},
		{"add", "rule", "ip", "loss", "out", which + " counter drop"},
	} {
		if err := story.Playground(append([]string{"exec", node, "nft"}, words...)...); err != nil {
			t.Fatal(err)
		}
	}
}

func mend(t *testing.T, node string) {
	t.Helper()
	if err := story.Playground("exec", node, "nft", "delete", "table", "ip", "loss"); err != nil {
		t.Fatal(err)
	}
}

// connectionIs waits until a Connection says that. How long that took is told, and is of the load of the machine, too.
func connectionIs(t *testing.T, c *clusters.Cluster, name string, want networkingv1beta1.ConnectionStatus) {
	t.Helper()
	start := time.Now()
	eventually(t, "the Connection "+name, func(ctx context.Context) error {
		var conn networkingv1beta1.Connection
		if err := c.Client.Get(ctx, client.ObjectKey{Namespace: where, Name: name}, &conn); err != nil {
			return err
		}
		if s := conn.Status; s.Value != want.Value || s.Reach != want.Reach || !slices.Equal(s.FailedNodes, want.FailedNodes) {
			return fmt.Errorf("it is %+v, want %+v", s, want)
		}
		return nil
	})
	t.Logf("%s %s after %s", want.Value, want.Reach, time.Since(start).Round(100*time.Millisecond))
}

// reaches waits until a node says that of the way to a peer.
func reaches(t *testing.T, c *clusters.Cluster, node, peer string, want networkingv1beta1.ConnectionStatusValue) {
	t.Helper()
	eventually(t, "what node "+node+" says of "+peer, func(ctx context.Context) error {
		var internal networkingv1beta1.InternalNode
		if err := c.Client.Get(ctx, client.ObjectKey{Name: node}, &internal); err != nil {
			return err
		}
		for _, p := range internal.Status.Peers {
			if p.ClusterID == peer && p.Value == want {
				return nil
			}
		}
		return fmt.Errorf("it says %+v, want %q", internal.Status.Peers, want)
	})
}
