// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

// Package skew peers a consumer with a provider of another version of Kubernetes, on clusters of the playground: LIQO_E2E_KUBECONFIGS
// names the kubeconfigs of both, the consumer first.
package skew

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/internal/names"
	"liqo.io/liqo/test/clusters"
)

const workload = `
apiVersion: v1
kind: Namespace
metadata: {name: shop}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: shop}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      terminationGracePeriodSeconds: 1
      containers: [{name: c, image: "docker.io/library/busybox:latest", imagePullPolicy: IfNotPresent, command: [sh, -c, "echo started; exec sleep 100000"]}]
`

// untilTrue repeats a check for as long as images are pulled on a slow machine.
func untilTrue(t *testing.T, what string, check func(ctx context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	for {
		err := check(ctx)
		if err == nil {
			return
		}
		select {
		case <-ctx.Done():
			t.Fatalf("waiting for %s: %v", what, err)
		case <-time.After(time.Second):
		}
	}
}

// minorOf returns the version of a cluster's oldest kubelet, as nodes with the label of Liqo have it.
func minorOf(ctx context.Context, c *clusters.Cluster) (string, error) {
	var nodes corev1.NodeList
	if err := c.Client.List(ctx, &nodes); err != nil {
		return "", err
	}
	for _, n := range nodes.Items {
		if n.Labels[names.NodeType] == "" {
			return strings.Split(n.Status.NodeInfo.KubeletVersion, ".")[1], nil
		}
	}
	return "", errors.New("the cluster has no node")
}

func TestSkewClusters(t *testing.T) {
	both, err := clusters.Given("milan", "rome")
	if err != nil {
		t.Fatal(err)
	}
	consumer, provider := both[0], both[1]
	for _, c := range both {
		if err := c.Install(); err != nil {
			t.Fatal(err)
		}
	}
	must := func(out string, err error) string {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	of := func(c *clusters.Cluster) string { return must(minorOf(t.Context(), c)) }
	if of(consumer) == of(provider) {
		t.Fatalf("both clusters run Kubernetes 1.%s", of(provider))
	}
	must(consumer.Say("peer", "--remote-kubeconfig", provider.Kubeconfig))
	untilTrue(t, "the version of the virtual node", func(ctx context.Context) error {
		var nodes corev1.NodeList
		if err := consumer.Client.List(ctx, &nodes, client.MatchingLabels{names.NodeType: names.NodeTypeVirtualNode}); err != nil {
			return err
		}
		if len(nodes.Items) != 1 || nodes.Items[0].Labels[names.KubernetesMinor] != of(provider) {
			return fmt.Errorf("%d virtual nodes, want one with %s=%s", len(nodes.Items), names.KubernetesMinor, of(provider))
		}
		return nil
	})
	namespace, deployment, _ := strings.Cut(workload, "---\n")
	must(consumer.Kubectl(namespace, "apply", "-f", "-"))
	must(consumer.Say("offload", "namespace", "shop", "--pod-offloading-strategy", "Remote"))
	must(consumer.Kubectl(deployment, "apply", "-f", "-"))
	must(consumer.Kubectl("", "rollout", "status", "deployment/web", "-n", "shop", "--timeout=5m"))
	if out := must(consumer.Kubectl("", "logs", "deployment/web", "-n", "shop")); !strings.Contains(out, "started") {
		t.Errorf("the logs are %q", out)
	}
	if out := must(consumer.Kubectl("", "exec", "deployment/web", "-n", "shop", "--", "echo", "here")); strings.TrimSpace(out) != "here" {
		t.Errorf("exec prints %q", out)
	}
	must(consumer.Kubectl("", "delete", "namespace", "shop", "--timeout=3m"))
	must(consumer.Say("unpeer", "--remote-kubeconfig", provider.Kubeconfig, "--skip-confirm"))
}
