// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"liqo.io/liqo/internal/names"
)

func TestDataIn(t *testing.T) {
	volume := func(provider, namespace, claim string, phase corev1.PersistentVolumePhase, policy corev1.PersistentVolumeReclaimPolicy) corev1.PersistentVolume {
		return corev1.PersistentVolume{
			ObjectMeta: metav1.ObjectMeta{Name: "pvc-" + claim, Labels: map[string]string{names.StorageProvisioner: "true", names.RemoteClusterID: provider}},
			Spec:       corev1.PersistentVolumeSpec{ClaimRef: &corev1.ObjectReference{Namespace: namespace, Name: claim}, PersistentVolumeReclaimPolicy: policy},
			Status:     corev1.PersistentVolumeStatus{Phase: phase},
		}
	}
	all := []corev1.PersistentVolume{
		volume("milan", "shop", "data", corev1.VolumeBound, corev1.PersistentVolumeReclaimDelete),
		volume("milan", "shop", "old", corev1.VolumeReleased, corev1.PersistentVolumeReclaimDelete),
		volume("milan", "bank", "kept", corev1.VolumeReleased, corev1.PersistentVolumeReclaimRetain),
		volume("turin", "shop", "other", corev1.VolumeBound, corev1.PersistentVolumeReclaimDelete),
		volume("", "shop", "here", corev1.VolumeBound, corev1.PersistentVolumeReclaimDelete),
	}
	for _, test := range []struct{ provider, namespace, want string }{
		{"milan", "", "[shop/data volume pvc-kept]"}, {"milan", "shop", "[shop/data]"}, {"milan", "bank", "[volume pvc-kept]"}, {"rome", "", "[]"},
		{"", "shop", "[shop/data shop/other]"},
	} {
		if got := fmt.Sprint(DataIn(all, test.provider, test.namespace)); got != test.want {
			t.Errorf("%s %s: got %s, want %s", test.provider, test.namespace, got, test.want)
		}
	}
}
