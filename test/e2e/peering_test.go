// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/test/clusters"
)

// A document is one manifest of a story and the cluster that it is applied to.
type document struct {
	cluster  *cluster
	manifest string
}

// peering names everything in one story, so that stories do not meet.
type peering struct{ *clusters.Peering }

func newPeering(t *testing.T, name string) *peering {
	t.Helper()
	setTestName(name)
	p, err := clusters.NewPeering(t.Context(), consumer.Cluster, provider.Cluster, name)
	if err != nil {
		t.Fatal(err)
	}
	return &peering{p}
}

// documents are the guide's manifests in the guide's order.
func (p *peering) documents(t *testing.T) []document {
	t.Helper()
	all, err := p.Documents()
	if err != nil {
		t.Fatal(err)
	}
	docs := make([]document, len(all))
	for i, d := range all {
		docs[i] = document{consumer, d.Manifest}
		if d.Cluster == provider.ID {
			docs[i].cluster = provider
		}
	}
	return docs
}

// begin applies all documents, which is one call of kubectl for each cluster, and waits for the node.
func (p *peering) begin(t *testing.T) {
	t.Helper()
	all := map[*cluster][]string{}
	for _, d := range p.documents(t) {
		all[d.cluster] = append(all[d.cluster], d.manifest)
	}
	for c, manifests := range all {
		c.apply(t, strings.Join(manifests, "\n---\n"))
	}
	p.node(t)
}

// node waits for the virtual node of the peering.
func (p *peering) node(t *testing.T) *corev1.Node {
	t.Helper()
	var node corev1.Node
	eventually(t, "node "+p.Slice+" to be Ready", func(ctx context.Context) error {
		if err := consumer.Client.Get(ctx, client.ObjectKey{Name: p.Slice}, &node); err != nil {
			return err
		}
		for _, c := range node.Status.Conditions {
			if c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue {
				return nil
			}
		}
		return fmt.Errorf("conditions are %v", node.Status.Conditions)
	})
	return &node
}

// remote is a second namespace of the story, all of whose pods run in the provider.
func (p *peering) remote() string { return p.Namespace + "-remote" }

// end takes the peering down the way a user does, and waits until both sides have forgotten it.
func (p *peering) end(t *testing.T) {
	t.Helper()
	consumer.mustKubectl(t, "delete", "namespaceoffloading", "offloading", "-n", p.Namespace, "--ignore-not-found", "--timeout=2m")
	consumer.mustKubectl(t, "delete", "rslice", p.Slice, "-n", p.ConsumerTenant, "--ignore-not-found", "--timeout=2m")
	consumer.mustKubectl(t, "delete", "secret", "cplane-secret", "-n", p.ConsumerTenant, "--ignore-not-found", "--timeout=2m")
	provider.mustKubectl(t, "delete", "tenant", "my-tenant", "-n", p.ProviderTenant, "--ignore-not-found", "--timeout=2m")
	consumer.mustKubectl(t, "delete", "namespace", p.ConsumerTenant, p.Namespace, "--ignore-not-found", "--timeout=2m")
	provider.mustKubectl(t, "delete", "namespace", p.ProviderTenant, "--ignore-not-found", "--timeout=2m")
}
