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
		Use: "move NODE", Short: "Boot a node with its other address, and the next time with the first one again", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			h, err := home.Open()
			if err != nil {
				return err
			}
			log := progress.New(os.Stderr)
			unlock, err := control(h, log)
			if err != nil {
				return err
			}
			defer unlock()
			f := fault{home: h}
			if err := f.aim(args[0]); err != nil {
				return err
			}
			if f.node == nil || f.node.Name == f.cluster.ControlPlane().Name {
				return fmt.Errorf("only nodes without a control plane can move: %q", args[0])
			}
			at, err := move(cmd.Context(), h, f.cluster, *f.node)
			if err != nil {
				return err
			}
			log.Say("%s: ready at %v", f.node.Name, at)
			return nil
		},
	}
}

// move returns when the API server says that the node is ready where it is now.
func move(ctx context.Context, h home.Home, left spec.Cluster, n spec.Node) (fmt.Stringer, error) {
	c := left.Move(n.Name)
	if err := cluster.Prepare(h, c); err != nil {
		return nil, err
	}
	if err := node.Stop(h, n.Name); err != nil {
		return nil, err
	}
	if err := node.Move(left, c, n.Name); err != nil {
		return nil, err
	}
	if err := h.Save(c); err != nil {
		return nil, err
	}
	for _, other := range c.Nodes() { // their routes lead to it
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
		return nil, fmt.Errorf("making a client for cluster %s: %w", c.Name, err)
	}
	want := corev1.NodeAddress{Type: corev1.NodeInternalIP, Address: n.Addresses[0].String()}
	return n.Addresses[0], cluster.Poll(ctx, readyLimit, "node "+n.Name, func(ctx context.Context) error {
		have, err := api.CoreV1().Nodes().Get(ctx, n.Name, metav1.GetOptions{})
		if err == nil && (!nodeReady(have) || !slices.Contains(have.Status.Addresses, want)) {
			err = fmt.Errorf("it is not ready at %s (logs: %s)", want.Address, h.Node(n.Name)+"/log")
		}
		return err
	})
}
