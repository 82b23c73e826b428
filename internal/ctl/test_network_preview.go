// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package ctl

import (
	"cmp"
	"context"

	"sigs.k8s.io/controller-runtime/pkg/client"
)

// toTry is the heading of each cluster in a dry run: its ID, as in all messages of the test.
const toTry = "%[2]s cluster"

// printDryRun prints the manifests of the test for each cluster, as far as predictable.
func (t *networkTest) printDryRun(ctx context.Context) error {
	left, err := t.hasFixtures(ctx)
	if err != nil {
		return err
	}
	if left {
		t.Warn("What another run has left would be removed first")
	}
	var pages []*manifestPage
	for _, p := range t.allClusters() {
		its, err := t.newManifestPage(ctx, p, left)
		if err != nil {
			return p.wrapWithCluster(err)
		}
		pages = append(pages, its)
	}
	t.Warn("The pods that ask are not shown: what they ask follows from the addresses of those that are asked")
	return t.printPages(cmp.Or(t.output, "yaml"), toTry, pages...)
}

// newManifestPage returns the manifests for one cluster. Only the namespace is validated by the API server, since the other objects
// need it to exist.
func (t *networkTest) newManifestPage(ctx context.Context, p *testCluster, left bool) (*manifestPage, error) {
	its, ns := &manifestPage{Cluster: p.Cluster}, t.namespaceOf(p)
	if !left {
		if err := client.NewDryRunClient(p.kube).Create(ctx, ns.DeepCopy()); err != nil {
			return nil, err
		}
	}
	its.entries = append(its.entries, pageEntry{obj: ns}) // the namespace already has its labels
	if p == t.consumer {
		its.addManifest(t.cli, t.newOffloading(), "")
		for _, service := range t.newServices() {
			its.addManifest(t.cli, service, "")
		}
		for _, pod := range t.allServers() {
			its.addManifest(t.cli, pod, "")
		}
	}
	if t.ip {
		if err := p.chooseShown(ctx); err != nil {
			return nil, err
		}
		its.addManifest(t.cli, p.shownPod(), "")
		its.addManifest(t.cli, p.shownIP(), "")
	}
	return its, nil
}
