// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"fmt"
	"os"
	"slices"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"liqo.io/liqo/playground/internal/cluster"
	"liqo.io/liqo/playground/internal/home"
	"liqo.io/liqo/playground/internal/node"
	"liqo.io/liqo/playground/internal/progress"
	"liqo.io/liqo/playground/internal/spec"
)

func moveCommand() *cobra.Command {
	return &cobra.Command{
		Use: "move NODE", Short: "Restart a node with its second address, and with its first address the next time", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			h, err := home.Open()
			if err != nil {
				return err
			}
			log := progress.New(os.Stderr)
			unlock, err := lockClusters(h, log)
			if err != nil {
				return err
			}
			defer unlock()
			f := fault{home: h}
			if err := f.parseTarget(args[0]); err != nil {
				return err
			}
			if f.node == nil || f.node.Name == f.cluster.ControlPlane().Name {
				return fmt.Errorf("invalid node %q: only nodes without a control plane can be moved", args[0])
			}
			address, err := moveNode(cmd.Context(), h, f.cluster, *f.node)
			if err != nil {
				return err
			}
			log.Print("%s: ready at %v", f.node.Name, address)
			return nil
		},
	}
}

// moveNode returns when the node is Ready with its new address.
func moveNode(ctx context.Context, h home.Home, before spec.Cluster, n spec.Node) (fmt.Stringer, error) {
	c := before.Move(n.Name)
	if err := cluster.Prepare(h, c); err != nil {
		return nil, err
	}
	if err := node.Stop(h, n.Name); err != nil {
		return nil, err
	}
	if err := node.RemoveOldAddresses(before, c, n.Name); err != nil {
		return nil, err
	}
	if err := h.Save(c); err != nil {
		return nil, err
	}
	for _, other := range c.Nodes() { // nodes have routes to the address of the moved node
		if err := node.Connect(c, other); err != nil {
			return nil, err
		}
		if other.Name == n.Name {
			n = other
		}
	}
	if err := node.Start(h, c, n); err != nil {
		return nil, err
	}
	config, err := cluster.Client(h, c.Name)
	if err != nil {
		return nil, err
	}
	api, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("creating a client for cluster %s: %w", c.Name, err)
	}
	want := corev1.NodeAddress{Type: corev1.NodeInternalIP, Address: n.Addresses[0].String()}
	return n.Addresses[0], cluster.Poll(ctx, readyTimeout, "node "+n.Name, func(ctx context.Context) error {
		current, err := api.CoreV1().Nodes().Get(ctx, n.Name, metav1.GetOptions{})
		if err == nil && (!isNodeReady(current) || !slices.Contains(current.Status.Addresses, want)) {
			err = fmt.Errorf("node is not ready with the address %s (logs: %s)", want.Address, h.Node(n.Name)+"/log")
		}
		return err
	})
}
