// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package deploy

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/internal/names"
	"liqo.io/liqo/internal/testkit"
)

func TestShadowPodDeletionPolicy(t *testing.T) {
	c := install(t)
	remoteNamespace := testkit.Namespace(t, c, "twin", map[string]string{names.RemoteClusterID: "milan"})
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: remoteNamespace}}
	mark := `{"metadata":{"annotations":{"` + names.ManagedByNamespaceMap + `":"tenant-milan/home"}}}`
	if err := c.Client.Patch(t.Context(), ns, client.RawPatch("application/merge-patch+json", []byte(mark))); err != nil {
		t.Fatal(err)
	}
	peer := clientOf(t, c.User(t, "gold-1234", "milan", "system:authenticated"))
	bind(t, c, remoteNamespace, names.RoleVirtualKubeletRemote, "gold-1234")
	rights(t, func() error {
		return peer.Get(t.Context(), client.ObjectKey{Namespace: remoteNamespace, Name: "x"}, &corev1.Pod{})
	})

	pod := func(name, node string, labels map[string]string) *corev1.Pod {
		p := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: remoteNamespace, Name: name, Labels: labels},
			Spec:       corev1.PodSpec{NodeName: node, Containers: []corev1.Container{{Name: "main", Image: "web:1"}}},
		}
		if err := c.Client.Create(t.Context(), p); err != nil {
			t.Fatal(err)
		}
		return p
	}
	made := map[string]string{names.ManagedBy: "shadowpod"}
	created, waiting, ended, other := pod("made", "worker", made), pod("waiting", "", made), pod("ended", "worker", made), pod("other", "worker", nil)
	testkit.UpdateStatus(t, c.Client, ended, func(p *corev1.Pod) { p.Status.Phase = corev1.PodSucceeded })
	for name, tc := range map[string]struct {
		user  client.Client
		pod   *corev1.Pod
		grace int64
		want  string
	}{
		"a peer deletes a pod made from its ShadowPod":        {peer, created, 5, ""},
		"a peer deletes a running pod without a grace period": {peer, created, 0, "may not delete running pods without a grace period"},
		"a peer deletes a pod that is on no node":             {peer, waiting, 0, ""},
		"a peer deletes a pod that has ended":                 {peer, ended, 0, ""},
		"a peer deletes another pod":                          {peer, other, 5, "only delete pods that were made from ShadowPods"},
		"an administrator deletes any pod":                    {c.Client, other, 0, ""},
	} {
		t.Run(name, func(t *testing.T) {
			expect(t, tc.user.Delete(t.Context(), tc.pod, client.GracePeriodSeconds(tc.grace), client.DryRunAll), tc.want)
		})
	}
}
