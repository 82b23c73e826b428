// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package network

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"liqo.io/liqo/test/clusters"
)

const inBandPod = `
apiVersion: v1
kind: Pod
metadata: {name: guest, namespace: in-band}
spec:
  terminationGracePeriodSeconds: 0
  containers:
  - name: guest
    image: docker.io/library/busybox:latest
    imagePullPolicy: IfNotPresent
    command: [sh, -c, "echo is here; exec sleep 100000"]
    resources: {requests: {cpu: 5m, memory: 8Mi}}
`

// throughTunnel has a cluster peer with another one, of which it has that kubeconfig, by the tunnel that is there already. Its pods and nodes have no other way to the API
// server of the provider, and all of it works.
func throughTunnel(t *testing.T, consumer, provider *clusters.Cluster, kubeconfig string) {
	t.Helper()
	its := nodes(t, consumer)
	open := func() {
		for _, n := range its {
			if err := mayAsk(n.Name); err != nil {
				t.Error(err)
			}
		}
	}
	defer open()
	for _, n := range its {
		mayNotAsk(t, n.Name, nodes(t, provider))
	}
	if out, err := consumer.Say("peer", "--remote-kubeconfig", kubeconfig, "--in-band"); err != nil {
		show(t)
		t.Fatal(err, out)
	}
	if out := kubectl(t, consumer, "", "get", "foreigncluster", provider.ID, "-o", "jsonpath={.status.foreignProxyUrl}"); !regexp.MustCompile(`^http://[0-9.]+:8118$`).MatchString(out) {
		t.Errorf("the proxy is %q", out)
	}
	kubectl(t, consumer, "", "create", "namespace", "in-band")
	if out, err := consumer.Say("offload", "namespace", "in-band", "--pod-offloading-strategy", "Remote"); err != nil {
		t.Fatal(err, out)
	}
	kubectl(t, consumer, inBandPod, "apply", "-f", "-")
	for what, args := range map[string][]string{
		"the logs of a pod in the provider": {"logs", "-n", "in-band", "guest"},
		"a command in it":                   {"exec", "-n", "in-band", "guest", "--", "echo", "is here"},
	} {
		eventually(t, what, func(context.Context) error {
			out, err := consumer.Kubectl("", args...)
			if err == nil && strings.TrimSpace(out) != "is here" {
				err = fmt.Errorf("it says %q", out)
			}
			return err
		})
	}
	kubectl(t, consumer, "", "delete", "namespace", "--wait=false", "in-band")
}

// hasGone waits for the end of what throughTunnel made beside the peering.
func hasGone(t *testing.T, consumer *clusters.Cluster) {
	t.Helper()
	eventually(t, "the namespace in-band to go", func(context.Context) error {
		out, err := consumer.Kubectl("", "get", "namespace", "--ignore-not-found", "-o", "name", "in-band")
		if err == nil && out != "" {
			err = fmt.Errorf("%s is there", out)
		}
		return err
	})
}

// mayNotAsk has a node drop each connection that its pods, and itself, begin with nodes of a provider, its API server among them. Answers
// are let through: the other direction has a way of its own.
func mayNotAsk(t *testing.T, node string, provider []corev1.Node) {
	t.Helper()
	var at []string
	for _, n := range provider {
		at = append(at, address(t, n).String())
	}
	drop := fmt.Sprintf("ip daddr { %s } tcp flags & (syn | ack) == syn counter drop", strings.Join(at, ", "))
	if err := errors.Join(
		nft(node, "add", "table", "ip", "in_band"),
		nft(node, "add", "chain", "ip", "in_band", "through", "{ type filter hook prerouting priority -310 ; }"),
		nft(node, "add", "rule", "ip", "in_band", "through", drop),
		nft(node, "add", "chain", "ip", "in_band", "out", "{ type filter hook output priority -310 ; }"),
		nft(node, "add", "rule", "ip", "in_band", "out", drop),
	); err != nil {
		t.Fatal(err)
	}
}

func mayAsk(node string) error {
	return errors.Join(nft(node, "add", "table", "ip", "in_band"), nft(node, "delete", "table", "ip", "in_band"))
}
