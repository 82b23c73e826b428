// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package webhook

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	offv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/names"
	"liqo.io/liqo/internal/testkit"
)

func TestResizeBeyondQuota(t *testing.T) {
	c := testkit.Cluster(t)
	install(t, c, 1, Options{EnforceResources: true})
	tenant := testkit.Namespace(t, c, "tenant", map[string]string{names.TenantNamespace: "true", names.RemoteClusterID: "mauve"})
	remoteNamespace := testkit.Namespace(t, c, "twin", map[string]string{names.RemoteClusterID: "mauve"})
	user := as(t, c, "slice-mauve")
	if err := c.Client.Create(t.Context(), granted(tenant, "slice-mauve")); err != nil {
		t.Fatal(err)
	}
	sp := &offv1beta1.ShadowPod{ObjectMeta: metav1.ObjectMeta{Namespace: remoteNamespace, Name: "web", Labels: map[string]string{names.OffloadingOrigin: "mauve"}}}
	sp.Spec.Pod = pod(remoteNamespace).Spec
	sp.Spec.Pod.Containers[0].Resources.Requests = amounts("cpu", "1")
	soon(t, func() error { return client.IgnoreAlreadyExists(user.Create(t.Context(), sp)) })
	grow := func(to corev1.ResourceList) error {
		now := sp.DeepCopy()
		now.Spec.Pod.Containers[0].Resources.Requests = to
		return user.Patch(t.Context(), now, client.MergeFrom(sp), client.DryRunAll)
	}
	if err := grow(amounts("cpu", "20")); err != nil {
		t.Errorf("all that is granted: %v", err)
	}
	if err := refusedWith(grow(amounts("cpu", "21")), "quota usage exceeded"); err != nil {
		t.Error(err)
	}
}
