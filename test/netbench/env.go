// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/test/clusters"
	"liqo.io/liqo/test/figures"
	"liqo.io/liqo/test/traffic"
)

const (
	where = "default" // is the tunnel, as in the user guide
	limit = 2 * time.Minute
)

// benchEnv is two connected clusters. Those of the clients of the tunnel come first.
type benchEnv struct {
	clusters [2]*clusters.Cluster
	peerings []figures.Promise
	apart    [2]clusters.Listing // when they had never peered
	tunnel   *clusters.Tunnel
	gateways [2]corev1.Pod
	nodes    [2]traffic.Endpoint // where the gateways run
	others   [2]string           // nodes without gateways
	paths    []traffic.Path      // from a pod to a pod of the other cluster
	services [2]client.ObjectKey // of each cluster, the one whose endpoint is in the other one
}

var (
	gatewayLabels = client.MatchingLabels{"networking.liqo.io/component": "gateway"}
	keyLabels     = client.MatchingLabels{"networking.liqo.io/gateway-resource": "true"}
)

// newBenchEnv installs in both clusters, has them peer and part so many times, and connects them.
func newBenchEnv(ctx context.Context, home string, peerings int) (*benchEnv, error) {
	w := &benchEnv{}
	for i, name := range []string{"a", "b"} {
		c, err := clusters.New([]string{"cl-consumer", "cl-provider"}[i], filepath.Join(home, "clusters", name, "admin.kubeconfig"))
		if err != nil {
			return nil, err
		}
		if err := c.Install(); err != nil {
			return nil, err
		}
		// What an earlier run left is not what this one makes.
		if _, err := c.Kubectl("", "delete", "gatewayclients,gatewayservers,publickeies", "-n", where, "--all"); err != nil {
			return nil, err
		}
		if err := until(ctx, "earlier keys to go", func() error { return deleteKeys(ctx, c) }); err != nil {
			return nil, err
		}
		w.clusters[i] = c
	}
	var err error
	if w.peerings, err = w.peer(ctx, peerings); err != nil {
		return nil, err
	}
	w.tunnel = clusters.NewTunnel(w.clusters[1], w.clusters[0], where)
	if err := w.tunnel.Connect(ctx); err != nil {
		return nil, err
	}
	if err := w.findGateways(ctx); err != nil {
		return nil, err
	}
	return w, w.findPaths(ctx)
}

// deleteKeys deletes keys of gateways, also those that belong to none: a new gateway would take them.
func deleteKeys(ctx context.Context, c *clusters.Cluster) error {
	if err := c.Client.DeleteAllOf(ctx, &corev1.Secret{}, client.InNamespace(where), keyLabels); err != nil {
		return err
	}
	var remaining corev1.SecretList
	if err := c.Client.List(ctx, &remaining, client.InNamespace(where), keyLabels); err != nil {
		return err
	}
	if len(remaining.Items) > 0 {
		return fmt.Errorf("%d Secrets are left", len(remaining.Items))
	}
	return nil
}

func (w *benchEnv) findGateways(ctx context.Context) error {
	for i, c := range w.clusters {
		var pods corev1.PodList
		if err := c.Client.List(ctx, &pods, client.InNamespace(where), gatewayLabels); err != nil {
			return err
		}
		pods.Items = slices.DeleteFunc(pods.Items, func(p corev1.Pod) bool { return p.DeletionTimestamp != nil })
		if len(pods.Items) != 1 {
			return fmt.Errorf("%s has %d gateways", c.ID, len(pods.Items))
		}
		w.gateways[i] = pods.Items[0]
		at, err := netip.ParseAddr(w.gateways[i].Status.HostIP)
		if err != nil {
			return err
		}
		w.nodes[i] = traffic.Endpoint{File: nodeFile(w.gateways[i].Spec.NodeName), Own: at, Seen: at}
	}
	return nil
}

// findPaths starts a pod on each node. The first path is between nodes of the gateways, the other between those without.
func (w *benchEnv) findPaths(ctx context.Context) error {
	w.paths = []traffic.Path{{Name: "pods beside the gateways"}, {Name: "pods on other nodes"}}
	for i, c := range w.clusters {
		var nodes corev1.NodeList
		if err := c.Client.List(ctx, &nodes); err != nil {
			return err
		}
		nodes.Items = slices.DeleteFunc(nodes.Items, isVirtual) // of an earlier run
		if len(nodes.Items) != 2 {
			return fmt.Errorf("%s has %d nodes: two are needed, one of them without the gateway", c.ID, len(nodes.Items))
		}
		for _, n := range nodes.Items {
			p, err := w.pod(ctx, i, n.Name)
			if err != nil {
				return err
			}
			at := &w.paths[0]
			if n.Name != w.gateways[i].Spec.NodeName {
				at, w.others[i] = &w.paths[1], n.Name
			}
			if i == 0 {
				at.From = p
			} else {
				at.To = p
			}
		}
	}
	return nil
}

// pod starts one that does nothing, and returns where it is and how the other cluster sees it.
func (w *benchEnv) pod(ctx context.Context, cluster int, node string) (traffic.Endpoint, error) {
	p, err := traffic.StartPod(ctx, w.clusters[cluster], node)
	if err == nil {
		p.Seen, err = traffic.TranslateAddress(ctx, w.clusters[1-cluster], where, w.clusters[cluster].ID, p.Own)
	}
	return p, err
}

// program is the process of a gateway that works: not what keeps the namespaces of the pod, nor what keeps the process.
func program(uid types.UID) (int, error) {
	ours, err := programs(uid)
	if err != nil {
		return 0, err
	}
	if len(ours) < 2 {
		return 0, fmt.Errorf("the gateway of pod %s does not work yet", uid)
	}
	return ours[1], nil
}

// programs are the processes of a pod that run liqo, in the order in which they began.
func programs(uid types.UID) ([]int, error) {
	pids, err := traffic.Processes(uid)
	if err != nil {
		return nil, err
	}
	pids = slices.DeleteFunc(pids, func(pid int) bool {
		data, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		return err != nil || !strings.Contains(strings.SplitN(string(data), "\x00", 2)[0], "liqo")
	})
	began := map[int]int{}
	for _, pid := range pids {
		// Fields after the name, which is in brackets and may hold anything: the 22nd in all is when it began, in ticks.
		if data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid)); err == nil {
			_, rest, _ := strings.Cut(string(data), ") ")
			began[pid], _ = strconv.Atoi(strings.Fields(rest)[19])
		}
	}
	slices.SortFunc(pids, func(a, b int) int { return cmp.Compare(began[a], began[b]) })
	return pids, nil
}

// until waits for what must come.
func until(ctx context.Context, what string, check func() error) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	for {
		err := check()
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("waiting for %s: %w", what, errors.Join(err, ctx.Err()))
		case <-time.After(20 * time.Millisecond):
		}
	}
}
