// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	liqov1beta1 "liqo.io/liqo/api/core/v1beta1"
)

// firsts are the kinds of what a user may delete first: tenant namespaces and that of the application, the credentials, or
// the Tenant at the provider.
var firsts = []string{"Namespace", "Secret", "Tenant"}

// Each peering is made of manifests in another order, and ends in another order; the seeds say which.
func TestPeeringOrder(t *testing.T) {
	unchanged := leavesNothing(t)
	t.Cleanup(unchanged)
	for i, first := range firsts {
		seed := []uint64{1, 2, rand.Uint64()}[i]
		t.Run(fmt.Sprintf("seed %d, %s deleted first", seed, first), func(t *testing.T) {
			p := newPeering(t, fmt.Sprintf("shuffled-%d", i))
			t.Cleanup(func() { p.end(t) })
			random := rand.New(rand.NewPCG(seed, 0))
			p.applyShuffled(t, random)
			p.checkNode(t)
			p.deployWeb(t)
			p.remotePod(t)
			p.deleteFirst(t, random, first)
		})
	}
}

// applyShuffled begins with the namespaces: without them nothing else can be said. All else may come in any order.
func (p *peering) applyShuffled(t *testing.T, random *rand.Rand) {
	t.Helper()
	docs := p.documents(t)
	random.Shuffle(len(docs), func(i, j int) { docs[i], docs[j] = docs[j], docs[i] })
	slices.SortStableFunc(docs, func(a, b document) int { return rank(a, "Namespace") - rank(b, "Namespace") })
	for _, d := range docs {
		d.cluster.apply(t, d.manifest)
	}
}

// deleteFirst deletes all documents of the peering and waits until they are gone, those of one kind first, the others in
// any order; none waits for one before it to be gone.
func (p *peering) deleteFirst(t *testing.T, random *rand.Rand, first string) {
	t.Helper()
	docs := p.documents(t)
	random.Shuffle(len(docs), func(i, j int) { docs[i], docs[j] = docs[j], docs[i] })
	slices.SortStableFunc(docs, func(a, b document) int { return rank(a, first) - rank(b, first) })
	for _, d := range docs {
		obj := parse(t, d.manifest)
		t.Logf("deleting %s %s", obj.GetKind(), obj.GetName())
		if err := client.IgnoreNotFound(d.cluster.Client.Delete(t.Context(), obj)); err != nil {
			t.Fatal(err)
		}
	}
	for _, d := range docs {
		obj := parse(t, d.manifest)
		eventually(t, obj.GetKind()+" "+obj.GetName()+" to go", func(ctx context.Context) error {
			giveUp(ctx)
			err := d.cluster.Client.Get(ctx, client.ObjectKeyFromObject(obj), obj)
			if apierrors.IsNotFound(err) {
				return nil
			}
			return fmt.Errorf("it is there with the finalizers %v: %v", obj.GetFinalizers(), err)
		})
	}
}

// rank is 0 for a document of the kind that comes first, and 1 for all others.
func rank(d document, first string) int {
	if strings.Contains(d.manifest, "\nkind: "+first+"\n") {
		return 0
	}
	return 1
}

// giveUp says that the provider does not come back, as the user of a consumer does whom it refuses: what gave the right to
// clean up in the provider may be gone already.
func giveUp(ctx context.Context) {
	patch := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"annotations":{"liqo.io/foreign-cluster-permanently-unreachable":"true"}}}`))
	_ = consumer.Client.Patch(ctx, &liqov1beta1.ForeignCluster{ObjectMeta: metav1.ObjectMeta{Name: provider.ID}}, patch)
}
