// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

// Package network tries the network between two clusters from each place where somebody may be to each where somebody may want to
// go. The clusters use the same addresses and have two nodes each; LIQO_E2E_KUBECONFIGS names them. In test/run.sh the
// first one has flannel, an overlay, and the second one kube-router, which has routes and rules for each pod.
package network

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"liqo.io/liqo/test/clusters"
	"liqo.io/liqo/test/story"
)

// a has the clients of tunnels, b the servers.
var a, b *clusters.Cluster

func TestMain(m *testing.M) {
	if text := os.Getenv(told); text != "" {
		if err := send(text); err != nil {
			fmt.Fprintln(os.Stderr, "network:", err)
			os.Exit(1)
		}
		return
	}
	if err := setUp(); err != nil {
		fmt.Fprintln(os.Stderr, "network:", err)
		os.Exit(1)
	}
	os.Exit(story.Run(m, a, b))
}

func setUp() error {
	both, err := clusters.Given("cl-consumer", "cl-provider")
	if err != nil {
		return err
	}
	a, b = both[0], both[1]
	return clusters.InParallel(both, func(c *clusters.Cluster) error {
		if err := c.Install("--set", "offloading.twinNamespaces.pods.serviceAccounts={lodger}", "--set", "metrics.enabled=true"); err != nil {
			return err
		}
		return restartDaemonSets(c)
	})
}

// restartDaemonSets rolls out the CNI again, as the guide of DaemonSets says: it is older than Liqo, and its pods would wait on virtual nodes.
func restartDaemonSets(c *clusters.Cluster) error {
	sets, err := c.Kubectl("", "get", "daemonsets", "-n", "kube-system", "-o", "name")
	if err != nil {
		return err
	}
	for _, name := range strings.Fields(sets) {
		for _, action := range [][]string{{"restart", name}, {"status", name, "--timeout", "10m"}} {
			if _, err := c.Kubectl("", append([]string{"rollout", "-n", "kube-system"}, action...)...); err != nil {
				return err
			}
		}
	}
	return nil
}

// connect makes a tunnel between both clusters, for as long as the test runs.
func connect(t *testing.T) *clusters.Tunnel {
	t.Helper()
	return dig(t, clusters.NewTunnel(b, a, where))
}

// connectAs makes the tunnel of clusters that have peered, which find out by themselves how large packets may be: one of them may have less
// room for them than the other.
func connectAs(t *testing.T, p *clusters.Peering) *clusters.Tunnel {
	t.Helper()
	tunnel := clusters.NewTunnel(b, a, "")
	tunnel.ServerNamespace, tunnel.ClientNamespace, tunnel.MTU = p.ProviderTenant, p.ConsumerTenant, 0
	return dig(t, tunnel)
}

func dig(t *testing.T, tunnel *clusters.Tunnel) *clusters.Tunnel {
	t.Helper()
	t.Cleanup(func() {
		if err := tunnel.Disconnect(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	})
	if err := tunnel.Connect(t.Context()); err != nil {
		show(t)
		t.Fatal(err)
	}
	return tunnel
}

// at is the cluster with an ID.
func at(id string) *clusters.Cluster {
	if id == a.ID {
		return a
	}
	return b
}

// peer has a borrow from b, for as long as the test runs.
func peer(t *testing.T, name string) *clusters.Peering {
	t.Helper()
	p, err := clusters.NewPeering(t.Context(), a, b, name)
	if err != nil {
		t.Fatal(err)
	}
	documents, err := p.Documents()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { end(t, p) })
	for _, d := range documents {
		on := a
		if d.Cluster == b.ID {
			on = b
		}
		kubectl(t, on, d.Manifest, "apply", "-f", "-")
	}
	return p
}

// eventually waits until check holds.
func eventually(t *testing.T, what string, check func(context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), 4*time.Minute) // a stopped node takes two to come back
	defer cancel()
	var last error
	for ctx.Err() == nil {
		if err := check(ctx); err == nil {
			return
		} else if ctx.Err() == nil {
			last = err
		}
		select {
		case <-time.After(250 * time.Millisecond):
		case <-ctx.Done():
		}
	}
	show(t)
	t.Fatalf("waiting for %s: %v", what, last)
}

// show prints what a reader of a failure asks first.
func show(t *testing.T) {
	t.Helper()
	for _, c := range []*clusters.Cluster{a, b} {
		for _, args := range [][]string{
			{"get", "configurations,gatewayservers,gatewayclients,connections,internalnodes,pods,services,endpointslices", "-A", "-o", "wide"},
			{"get", "events", "-A", "--field-selector", "type=Warning"},
			{"logs", "--all-containers", "--prefix", "--tail", "40", "-n", "liqo", "-l", "app.kubernetes.io/name=fabric"},
		} {
			logKubectl(t, c, args...)
		}
		gateways := []string{"-l", "networking.liqo.io/component=gateway"}
		in, _ := c.Kubectl("", append([]string{"get", "pods", "-A", "-o", "jsonpath={.items[*].metadata.namespace}"}, gateways...)...)
		for _, namespace := range strings.Fields(in) {
			logKubectl(t, c, append([]string{"logs", "--all-containers", "--prefix", "--tail", "40", "-n", namespace}, gateways...)...)
		}
	}
}

func logKubectl(t *testing.T, c *clusters.Cluster, args ...string) {
	t.Helper()
	out, err := c.Kubectl("", args...)
	t.Logf("%s $ kubectl %v\n%s%v", c.ID, args, out, err)
}

func kubectl(t *testing.T, c *clusters.Cluster, stdin string, args ...string) string {
	t.Helper()
	out, err := c.Kubectl(stdin, args...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}
