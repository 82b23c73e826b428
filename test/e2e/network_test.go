// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"net/netip"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
)

// Both clusters use the same addresses for their pods: each sees the other's under a prefix that is free.
func TestRemappedNetworks(t *testing.T) {
	setTestName("networks")
	for _, side := range []struct{ here, there *cluster }{{consumer, provider}, {provider, consumer}} {
		pods := strings.Fields(strings.NewReplacer("-", " ").Replace(queryInfo(t, side.there, "network.podcidrs")))
		external := strings.TrimSpace(queryInfo(t, side.there, "network.externalcidr"))
		if len(pods) == 0 || external == "" {
			t.Fatalf("%s has the pod networks %v and the external network %q", side.there.ID, pods, external)
		}
		side.here.apply(t, fmt.Sprintf(`apiVersion: networking.liqo.io/v1beta1
kind: Configuration
metadata: {name: networks, namespace: default, labels: {liqo.io/remote-cluster-id: networks-of-%s}}
spec: {remote: {cidr: {pod: [%s], external: [%s]}}}`, side.there.ID, strings.Join(pods, ", "), external))
		t.Cleanup(func() { forgetNetworks(t, side.here) })

		cfg := &networkingv1beta1.Configuration{}
		eventually(t, "prefixes for the networks of "+side.there.ID, func(ctx context.Context) error {
			if err := side.here.Client.Get(ctx, client.ObjectKey{Namespace: "default", Name: "networks"}, cfg); err != nil {
				return err
			}
			if !apimeta.IsStatusConditionTrue(cfg.Status.Conditions, networkingv1beta1.ConditionNetworkCIDRsConfigured) || cfg.Spec.Local == nil {
				return fmt.Errorf("status %+v, spec.local %v", cfg.Status, cfg.Spec.Local)
			}
			return nil
		})
		nodesHaveAddresses(t, side.here)
		var own, remotePrefixes []netip.Prefix
		for _, c := range append(cfg.Spec.Local.CIDR.Pod, cfg.Spec.Local.CIDR.External...) {
			own = append(own, netip.MustParsePrefix(string(c)))
		}
		for _, c := range append(cfg.Status.Remote.CIDR.Pod, cfg.Status.Remote.CIDR.External...) {
			remotePrefixes = append(remotePrefixes, netip.MustParsePrefix(string(c)))
		}
		for _, a := range own {
			for _, b := range remotePrefixes {
				if a.Overlaps(b) {
					t.Errorf("%s sees the network %s of its peer beside its own %s", side.here.ID, b, a)
				}
			}
		}
	}
}

// nodesHaveAddresses waits until each physical node has an address in front of peers.
func nodesHaveAddresses(t *testing.T, c *cluster) {
	t.Helper()
	eventually(t, "an InternalNode for each node of "+c.ID, func(ctx context.Context) error {
		var nodes corev1.NodeList
		if err := c.Client.List(ctx, &nodes); err != nil {
			return err
		}
		for _, node := range nodes.Items {
			if node.Labels["liqo.io/type"] == "virtual-node" {
				continue
			}
			var internal networkingv1beta1.InternalNode
			if err := c.Client.Get(ctx, client.ObjectKey{Name: node.Name}, &internal); err != nil {
				return err
			}
			if internal.Spec.Interface.Node.IP == "" {
				return fmt.Errorf("node %s has no address", node.Name)
			}
		}
		return nil
	})
}

// queryInfo is the answer of liqoctl to a query.
func queryInfo(t *testing.T, c *cluster, query string) string {
	t.Helper()
	out, err := c.Liqoctl("info", "--get", query)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// forgetNetworks deletes a Configuration, and waits for all that was made for it to go.
func forgetNetworks(t *testing.T, c *cluster) {
	t.Helper()
	c.mustKubectl(t, "delete", "configuration", "-n", "default", "networks")
	eventually(t, "the Networks of a deleted Configuration to go", func(context.Context) error {
		if remaining, err := c.Kubectl("", "get", "networks,ips", "-n", "default", "-o", "name"); err != nil || remaining != "" {
			return fmt.Errorf("%q is left (%v)", remaining, err)
		}
		return nil
	})
}
