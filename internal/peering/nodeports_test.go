// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package peering

import (
	"context"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	liqov1beta1 "liqo.io/liqo/api/core/v1beta1"
	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/testkit"
)

func TestNodePortsLost(t *testing.T) {
	c := testkit.Cluster(t).Client
	var recorded []string
	f := &foreignClusters{ports: &nodePorts{live: c}, events: kube.NewEventRecorder(func(_ client.Object, e kube.Event) { recorded = append(recorded, e.Reason) })}
	rome := func(connected bool) *liqov1beta1.ForeignCluster {
		fc := &liqov1beta1.ForeignCluster{ObjectMeta: metav1.ObjectMeta{Name: "rome", UID: "rome-uid"}}
		fc.Status.Modules.Networking.Enabled = connected
		return fc
	}
	f.recordEvents(t.Context(), rome(true))
	config := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: ciliumConfig.Namespace, Name: ciliumConfig.Name}, Data: map[string]string{"kube-proxy-replacement": "true"}}
	testkit.Create(t, c, config)
	t.Cleanup(func() { _ = c.Delete(context.Background(), config) })
	f.recordEvents(t.Context(), rome(true)) // by what was detected before
	if len(recorded) > 0 {
		t.Errorf("recorded %q without Cilium", recorded)
	}
	f.ports.at = f.ports.at.Add(-nodePortsTTL)
	f.recordEvents(t.Context(), rome(false))
	for range 2 {
		f.recordEvents(t.Context(), rome(true))
	}
	if !slices.Equal(recorded, []string{"NodePortsLost"}) {
		t.Errorf("recorded %q, want one NodePortsLost", recorded)
	}
}
