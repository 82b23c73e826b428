// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/metadata"
)

// transient kinds come and go by themselves, whatever a story does.
var transient = []string{"events", "leases", "pods", "endpointslices", "endpoints", "replicasets", "controllerrevisions", "certificatesigningrequests", "componentstatuses", "ipaddresses"}

// listing names every object of the cluster, transient kinds aside.
func (c *cluster) listing(ctx context.Context) ([]string, error) {
	resources, err := discovery.NewDiscoveryClientForConfigOrDie(c.Config).ServerPreferredResources()
	if err != nil {
		return nil, err
	}
	objects := metadata.NewForConfigOrDie(c.Config)
	var all []string
	for _, group := range resources {
		gv, err := schema.ParseGroupVersion(group.GroupVersion)
		if err != nil {
			return nil, err
		}
		for _, r := range group.APIResources {
			if slices.Contains(transient, r.Name) || strings.Contains(r.Name, "/") || !slices.Contains(r.Verbs, "list") {
				continue
			}
			list, err := objects.Resource(gv.WithResource(r.Name)).List(ctx, metav1.ListOptions{})
			if err != nil {
				return nil, err
			}
			for _, o := range list.Items {
				all = append(all, strings.Join([]string{r.Name, o.Namespace, o.Name}, " "))
			}
		}
	}
	slices.Sort(all)
	return all, nil
}

// leavesNothing notes both clusters' objects and returns the check that they are the same again.
func leavesNothing(t *testing.T) func() {
	t.Helper()
	before := map[*cluster][]string{}
	for _, c := range []*cluster{consumer, provider} {
		list, err := c.listing(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		before[c] = list
	}
	return func() {
		t.Helper()
		eventually(t, "both clusters to be as before", func(ctx context.Context) error {
			var differences []error
			for c, want := range before {
				list, err := c.listing(ctx)
				if err != nil {
					return err
				}
				if diff := cmp.Diff(want, list); diff != "" {
					differences = append(differences, errors.New(c.ID+" (-before +after):\n"+diff))
				}
			}
			return errors.Join(differences...)
		})
	}
}
