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
	"time"

	corev1 "k8s.io/api/core/v1"
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

// A consumer whose pods and nodes have no way to the API server of the provider, but the tunnel, peers with it, and uses what it is lent.
func TestPeeringThroughTheTunnel(t *testing.T) {
	began, its := time.Now(), nodes(t, a)
	t.Cleanup(func() {
		kubectl(t, a, "", "delete", "pod", "-n", "in-band", "--ignore-not-found", "guest")
		_, err := a.Say("unpeer", "--remote-kubeconfig", b.Kubeconfig, "--delete-namespaces")
		for _, n := range its {
			err = errors.Join(err, mayAsk(n.Name))
		}
		if err != nil {
			t.Error(err)
		}
		kubectl(t, a, "", "delete", "namespace", "--ignore-not-found", "--wait=false", "in-band")
		t.Logf("took %s", time.Since(began).Round(100*time.Millisecond))
	})
	for _, n := range its {
		mayNotAsk(t, n.Name)
	}
	says(t, peered, a, b, "peer", "--remote-kubeconfig", b.Kubeconfig, "--in-band")
	eventually(t, "the virtual node", func(ctx context.Context) error { return virtualNode(ctx, corev1.ConditionTrue) })
	if out := kubectl(t, a, "", "get", "foreigncluster", b.ID, "-o", "jsonpath={.status.foreignProxyUrl}"); !regexp.MustCompile(`^http://[0-9.]+:8118$`).MatchString(out) {
		t.Errorf("the proxy is %q", out)
	}

	kubectl(t, a, "", "create", "namespace", "in-band")
	if out, err := a.Say("offload", "namespace", "in-band", "--pod-offloading-strategy", "Remote"); err != nil {
		t.Fatal(err, out)
	}
	kubectl(t, a, inBandPod, "apply", "-f", "-")
	for what, args := range map[string][]string{
		"the logs of a pod in the provider": {"logs", "-n", "in-band", "guest"},
		"a command in it":                   {"exec", "-n", "in-band", "guest", "--", "echo", "is here"},
	} {
		eventually(t, what, func(context.Context) error {
			out, err := a.Kubectl("", args...)
			if err == nil && strings.TrimSpace(out) != "is here" {
				err = fmt.Errorf("it says %q", out)
			}
			return err
		})
	}

	if said := kubectl(t, b, "", "logs", "-n", "liqo", "deployment/liqo-proxy"); strings.Contains(said, "not reached") {
		t.Errorf("the proxy says\n%s", said)
	}
}

// mayNotAsk has a node drop what its pods, and itself, send by TCP to nodes of the provider, the API server among them.
func mayNotAsk(t *testing.T, node string) {
	t.Helper()
	var provider []string
	for _, n := range nodes(t, b) {
		provider = append(provider, address(t, n).String())
	}
	drop := fmt.Sprintf("ip daddr { %s } meta l4proto tcp counter drop", strings.Join(provider, ", "))
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
