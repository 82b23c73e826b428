// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"liqo.io/liqo/internal/names"
)

// IsReclaimed reports whether a volume is no longer needed, and about to be deleted.
func IsReclaimed(v *corev1.PersistentVolume) bool {
	return !v.DeletionTimestamp.IsZero() ||
		v.Status.Phase == corev1.VolumeReleased && v.Spec.PersistentVolumeReclaimPolicy == corev1.PersistentVolumeReclaimDelete
}

// DataIn returns the claims with data in a provider; for a volume retained without a claim, the volume. The result is for one provider and
// one namespace; an empty argument stands for all.
func DataIn(volumes []corev1.PersistentVolume, provider, namespace string) []string {
	var out []string
	for i := range volumes {
		v := &volumes[i]
		ref := v.Spec.ClaimRef
		if v.Labels[names.StorageProvisioner] == "" || v.Labels[names.RemoteClusterID] == "" || ref == nil || IsReclaimed(v) ||
			provider != "" && v.Labels[names.RemoteClusterID] != provider || namespace != "" && ref.Namespace != namespace {
			continue
		}
		if v.Status.Phase == corev1.VolumeReleased {
			out = append(out, "volume "+v.Name)
		} else {
			out = append(out, ref.Namespace+"/"+ref.Name)
		}
	}
	slices.Sort(out)
	return out
}
