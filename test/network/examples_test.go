// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package network

import (
	"os"
	"regexp"
	"testing"

	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
	"liqo.io/liqo/test/clusters"
)

// Templates of the examples, as they lie there but for the image, make a tunnel that carries what each node asks
// the peer in the name of its pods.
func TestExampleTemplates(t *testing.T) {
	const server, dialer = "wireguard-server-overridetargetport", "wireguard-client-pingdisabled"
	applied(t, a, dialer)
	applied(t, b, server)
	t.Cleanup(func() {
		if err := unpeer(a, b, "--delete-namespaces"); err != nil {
			t.Error(err)
		}
	})
	out, err := a.Say("peer", "--remote-kubeconfig", b.Kubeconfig, "--create-resource-slice=false", "--gw-server-template-name", server, "--gw-client-template-name", dialer)
	if err != nil {
		show(t)
		t.Fatal(err, out)
	}
	for c, peer := range map[*clusters.Cluster]*clusters.Cluster{a: b, b: a} {
		for _, n := range nodes(t, c) {
			reaches(t, c, n.Name, peer.ID, networkingv1beta1.Connected)
		}
	}
}

var image = regexp.MustCompile(`image: liqo\.io/liqo:\S+`)

// applied is a template of the examples, with the image that the cluster has.
func applied(t *testing.T, c *clusters.Cluster, name string) {
	t.Helper()
	text, err := os.ReadFile("../../examples/networking/" + name + ".yaml")
	if err != nil {
		t.Fatal(err)
	}
	there, err := c.Kubectl("", "get", "deployment", "-n", "liqo", "-l", "app.kubernetes.io/name=controller-manager", "-o", "jsonpath={.items[0].spec.template.spec.containers[0].image}")
	if err != nil || there == "" {
		t.Fatalf("no image is known: %v", err)
	}
	manifest := image.ReplaceAllString(string(text), "image: "+there)
	if _, err := c.Kubectl(manifest, "apply", "-f", "-"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if _, err := c.Kubectl(manifest, "delete", "-f", "-"); err != nil {
			t.Error(err)
		}
	})
}
