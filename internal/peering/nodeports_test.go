// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package peering

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	liqov1beta1 "liqo.io/liqo/api/core/v1beta1"
	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/policy"
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
	namespace := testkit.Namespace(t, testkit.Cluster(t), "cni", nil)
	config := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: policy.CiliumConfig}, Data: map[string]string{"kube-proxy-replacement": "true"}}
	testkit.Create(t, c, config)
	t.Cleanup(func() { _ = c.Delete(context.Background(), config) })
	f.ports.next = time.Time{}
	f.recordEvents(t.Context(), rome(true)) // Cilium left its settings behind
	labels := map[string]string{"app": "cilium"}
	daemons := &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: policy.CiliumDaemonSet}, Spec: appsv1.DaemonSetSpec{
		Selector: &metav1.LabelSelector{MatchLabels: labels},
		Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "agent", Image: "cilium"}}}},
	}}
	testkit.Create(t, c, daemons)
	t.Cleanup(func() { _ = c.Delete(context.Background(), daemons) })
	f.recordEvents(t.Context(), rome(true)) // by what was detected before
	if len(recorded) > 0 {
		t.Errorf("recorded %q without Cilium", recorded)
	}
	f.ports.next = time.Time{}
	f.recordEvents(t.Context(), rome(false))
	for range 2 {
		f.recordEvents(t.Context(), rome(true))
	}
	if !slices.Equal(recorded, []string{"NodePortsLost"}) {
		t.Errorf("recorded %q, want one NodePortsLost", recorded)
	}
}

// unreadable fails to list, and counts the attempts.
type unreadable struct {
	client.Reader
	lists int
}

func (u *unreadable) List(ctx context.Context, _ client.ObjectList, _ ...client.ListOption) error {
	u.lists++
	if _, limited := ctx.Deadline(); !limited {
		return errors.New("the detection is not limited")
	}
	return errors.New("timeout")
}

// While the API server does not answer, reconciles do not ask again and again, and the last result counts.
func TestNodePortsUnreadable(t *testing.T) {
	live := &unreadable{}
	n := &nodePorts{live: live, lost: true}
	for range 3 {
		if !n.areLost(t.Context()) {
			t.Error("the last result is lost")
		}
	}
	if live.lists != 1 || time.Until(n.next) > nodePortsRetry {
		t.Errorf("asked %d times, again in %s", live.lists, time.Until(n.next))
	}
}
