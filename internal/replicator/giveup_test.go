// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package replicator

import (
	"testing"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/events"

	liqov1beta1 "liqo.io/liqo/api/core/v1beta1"
	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/names"
	"liqo.io/liqo/internal/testkit"
)

func TestGivenUpRequeue(t *testing.T) {
	p := newPeering(t)
	r := &reconciler{
		client: p.consumer.Client, live: p.consumer.Client,
		recorder: events.NewFakeRecorder(100), log: logr.Discard(),
		problems: kube.NewEventRecorder(kube.EmitBy(events.NewFakeRecorder(100), "Replicate")),
	}
	look := func() bool {
		t.Helper()
		s := &inputs{
			peer: liqov1beta1.ClusterID(p.providerID), namespaces: []string{p.consumerTenant},
			secrets: []corev1.Secret{*p.secret("cplane-secret", testkit.Kubeconfig(t, p.user))},
		}
		after, err := r.giveUp(t.Context(), s)
		if err != nil {
			t.Fatal(err)
		}
		return after > 0
	}
	if look() {
		t.Error("looks again though nothing is held")
	}
	slice := p.guideSlice(p.consumerTenant)
	slice.SetFinalizers([]string{names.ReplicatorFinalizer})
	p.create(p.consumer, slice)
	if !look() {
		t.Error("does not look again though an object is held that may be deleted")
	}
	p.remove(p.consumer, p.sliceAt(p.consumerTenant))
	if look() {
		t.Error("looks again though the last object was released")
	}
	p.waitUntilDeleted(p.consumer, p.sliceAt(p.consumerTenant))
}
