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
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/test/clusters"
)

// The command that tries the network finds that all of it works, by every way that it knows, and leaves nothing.
func TestNetworkTest(t *testing.T) {
	tunnel := connect(t)
	peer(t, "try")
	eventually(t, "the virtual node to be ready", func(ctx context.Context) error { return virtualNode(ctx, corev1.ConditionTrue) })

	out, err := a.Liqoctl("test", "network", "-p", b.Kubeconfig, "--pod-np", "--np-ext", "--lb", "--ip", "--info")
	t.Log(out)
	if err != nil {
		show(t)
		t.Fatal(err)
	}
	n, m := len(nodes(t, a)), len(nodes(t, b))
	for _, want := range []struct {
		way    string
		passed int
	}{
		{"pod to pod +cl-consumer +cl-provider", n * m}, {"pod to pod +cl-provider +cl-consumer", n * m},
		{"node to pod +cl-consumer +cl-provider", n * m}, {"node to pod +cl-provider +cl-consumer", n * m},
		{"pod to Service +cl-consumer +cl-provider", n}, {"pod to Service +cl-provider +cl-consumer", m},
		{"pod to headless Service +cl-consumer +cl-provider", n}, {"pod to headless Service +cl-provider +cl-consumer", m},
		{"pod to IP +cl-consumer +cl-provider", n}, {"pod to IP +cl-provider +cl-consumer", m},
		{"pod to IP +cl-consumer +cl-consumer", n}, {"pod to IP +cl-provider +cl-provider", m},
		{"pod to NodePort +cl-consumer +cl-provider", n * n}, {"pod to NodePort +cl-provider +cl-consumer", m * m},
		{"outside to NodePort +here +cl-consumer", n}, {"outside to NodePort +here +cl-provider", m},
		// Each node has a pod of its own, which answers alone.
		{`outside to NodePort \(Local\) +here +cl-consumer`, n}, {`outside to NodePort \(Local\) +here +cl-provider`, m},
		{"outside to load balancer +here +cl-consumer", 1}, {"outside to load balancer +here +cl-provider", 1},
	} {
		if !regexp.MustCompile(fmt.Sprintf(`(?m)^%s +%d +0 +0$`, want.way, want.passed)).MatchString(out) {
			t.Errorf("no row is %q with %d that passed", want.way, want.passed)
		}
	}
	checkNothingRemains(t)

	// Without a tunnel no pod can be lent, and it is said who is missing.
	kubectl(t, b, "", "delete", "publickey", "-n", where, a.ID)
	eventually(t, "the virtual node to be no more ready", func(ctx context.Context) error { return virtualNode(ctx, corev1.ConditionFalse) })
	if _, err := a.Liqoctl("test", "network", "-p", b.Kubeconfig); err == nil || !strings.Contains(err.Error(), "the network to cl-provider is down") {
		t.Errorf("without a tunnel: %v", err)
	}
	checkNothingRemains(t)
	kubectl(t, b, strings.ReplaceAll(publicKey, "ID", a.ID)+tunnel.ClientKey, "apply", "-n", where, "-f", "-")
	if err := tunnel.Connected(t.Context()); err != nil {
		t.Error(err)
	}
}

// theVirtualNode is that of the peering.
func theVirtualNode(ctx context.Context) (*corev1.Node, error) {
	var list corev1.NodeList
	if err := a.Client.List(ctx, &list, client.MatchingLabels{"liqo.io/type": "virtual-node"}); err != nil {
		return nil, err
	}
	if len(list.Items) != 1 {
		return nil, fmt.Errorf("there are %d virtual nodes", len(list.Items))
	}
	return &list.Items[0], nil
}

// virtualNode wants it to be ready, or not.
func virtualNode(ctx context.Context, want corev1.ConditionStatus) error {
	node, err := theVirtualNode(ctx)
	if err != nil {
		return err
	}
	for _, c := range node.Status.Conditions {
		switch {
		case c.Type != corev1.NodeReady:
		case c.Status != want:
			return fmt.Errorf("it is %s: %s", c.Status, c.Message)
		default:
			return nil
		}
	}
	return errors.New("it says nothing")
}

func checkNothingRemains(t *testing.T) {
	t.Helper()
	for _, c := range []*clusters.Cluster{a, b} {
		if out := kubectl(t, c, "", "get", "namespaces", "-o", "name"); strings.Contains(out, "test-network") {
			t.Errorf("in %s there is\n%s", c.ID, out)
		}
	}
}
