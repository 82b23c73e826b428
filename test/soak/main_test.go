// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

// Package soak breaks clusters of the playground while an application runs in the provider, and looks at what of it is
// lost, or run twice. LIQO_E2E_KUBECONFIGS names the consumer's and the provider's kubeconfig, those of clusters a and b;
// LIQO_PLAYGROUND is the program that runs them, and LIQO_PLAYGROUND_HOME where it does.
package soak

import (
	"context"
	"errors"
	"fmt"
	"os"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/test/clusters"
	"liqo.io/liqo/test/story"
)

var (
	consumer, provider *clusters.Cluster
	peering            *clusters.Peering
)

func TestMain(m *testing.M) {
	if err := setUp(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, "soak:", err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// setUp installs with one replica of everything, so that whatever is killed is missed.
func setUp(ctx context.Context) error {
	both, err := clusters.Given("cl-consumer", "cl-provider")
	if err != nil {
		return err
	}
	consumer, provider = both[0], both[1]
	for _, c := range both {
		if err := c.Install("--set", "controllerManager.replicas=1"); err != nil {
			return err
		}
	}
	if peering, err = clusters.NewPeering(ctx, consumer, provider, "soak"); err != nil {
		return err
	}
	peering.Strategy = "Remote"
	docs, err := peering.Documents()
	if err != nil {
		return err
	}
	for _, d := range docs {
		c := consumer
		if d.Cluster == provider.ID {
			c = provider
		}
		if _, err := c.Kubectl(d.Manifest, "apply", "-f", "-"); err != nil {
			return err
		}
	}
	return story.Retry(ctx, 2*time.Minute, func(ctx context.Context) error {
		phase, err := consumer.Kubectl("", "get", "namespaceoffloading", "offloading", "-n", peering.Namespace, "-o", "jsonpath={.status.offloadingPhase}")
		if err == nil && phase != "Ready" {
			err = fmt.Errorf("the namespace is %q", phase)
		}
		return errors.Join(err, nodeIs(ctx, corev1.ConditionTrue))
	})
}

// nodeIs wants the virtual node to be Ready, or not.
func nodeIs(ctx context.Context, want corev1.ConditionStatus) error {
	var node corev1.Node
	if err := consumer.Client.Get(ctx, client.ObjectKey{Name: peering.Slice}, &node); err != nil {
		return err
	}
	for _, c := range node.Status.Conditions {
		if c.Type == corev1.NodeReady && (c.Status == corev1.ConditionTrue) == (want == corev1.ConditionTrue) {
			return nil
		}
	}
	return fmt.Errorf("the node's conditions are %v", node.Status.Conditions)
}
