// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package translate

import (
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"liqo.io/liqo/internal/names"
	"liqo.io/liqo/internal/policy"
)

// bindingAnnotations are what schedulers, provisioners and binders of this cluster write on claims.
var bindingAnnotations = []string{
	"pv.kubernetes.io/bind-completed", "pv.kubernetes.io/bound-by-controller", "volume.kubernetes.io/selected-node",
	"volume.kubernetes.io/storage-provisioner", "volume.beta.kubernetes.io/storage-provisioner", "volume.kubernetes.io/storage-resizer",
	"volume.beta.kubernetes.io/storage-class", names.RemoteStorageClass, names.RemoteAccessModes, names.VirtualVolume, names.ReclaimPolicy,
}

// RemoteClaim returns the claim in the provider that holds the data of a virtual volume. local is the claim bound to the volume, nil
// if none, and existing the present claim in the provider, with immutable class and modes; at least one is present.
func (t Target) RemoteClaim(volume *corev1.PersistentVolume, local, existing *corev1.PersistentVolumeClaim) *corev1.PersistentVolumeClaim {
	from := local
	if from == nil {
		from = existing
	}
	out := &corev1.PersistentVolumeClaim{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "PersistentVolumeClaim"},
		ObjectMeta: t.objectMeta(volume.Annotations[names.RemoteClaim], from),
		Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes: accessModes(from), VolumeMode: copyOf(from.Spec.VolumeMode),
			Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: *from.Spec.Resources.Requests.Storage()}},
		},
	}
	maps.DeleteFunc(out.Annotations, func(key, _ string) bool { return slices.Contains(bindingAnnotations, key) })
	out.Annotations[names.VirtualVolume] = volume.Name
	if volume.Spec.PersistentVolumeReclaimPolicy == corev1.PersistentVolumeReclaimRetain && volume.Labels[names.MovedClaim] == "" {
		out.Annotations[names.ReclaimPolicy] = string(corev1.PersistentVolumeReclaimRetain)
	}
	if class := volume.Annotations[names.RemoteStorageClass]; class != "" {
		out.Spec.StorageClassName = &class
	}
	if existing != nil {
		out.Spec.AccessModes, out.Spec.VolumeMode, out.Spec.StorageClassName = existing.Spec.AccessModes, existing.Spec.VolumeMode, existing.Spec.StorageClassName
		if existing.Status.Phase != corev1.ClaimBound || out.Spec.Resources.Requests.Storage().Cmp(*existing.Status.Capacity.Storage()) <= 0 {
			out.Spec.Resources.Requests = existing.Spec.Resources.Requests // only a bound volume is resized, and none shrinks
		}
	}
	return out
}

// accessModes returns the modes of the annotation, else those of the claim.
func accessModes(of *corev1.PersistentVolumeClaim) []corev1.PersistentVolumeAccessMode {
	var out []corev1.PersistentVolumeAccessMode
	for mode := range strings.SplitSeq(of.Annotations[names.RemoteAccessModes], ",") {
		if mode = strings.TrimSpace(mode); mode != "" {
			out = append(out, corev1.PersistentVolumeAccessMode(mode))
		}
	}
	if len(out) > 0 {
		return out
	}
	return slices.Clone(of.Spec.AccessModes)
}

// reportedConditions are the conditions of a claim that the provider reports.
var reportedConditions = []corev1.PersistentVolumeClaimConditionType{
	corev1.PersistentVolumeClaimResizing, corev1.PersistentVolumeClaimFileSystemResizePending,
	corev1.PersistentVolumeClaimControllerResizeError, corev1.PersistentVolumeClaimNodeResizeError,
}

// WasProvisioned reports whether the provider had bound the claim of a local claim.
func WasProvisioned(local *corev1.PersistentVolumeClaim) bool {
	return slices.ContainsFunc(local.Status.Conditions, func(c corev1.PersistentVolumeClaimCondition) bool {
		return c.Type == names.ClaimProvisioned && c.Status == corev1.ConditionTrue
	})
}

// ClaimStatus returns the status of a bound local claim: capacity and resizing are as reported by the provider. The condition
// ClaimProvisioned stays: it prevents that a claim lost by the provider is replaced by an empty one.
func ClaimStatus(local, remote *corev1.PersistentVolumeClaim) corev1.PersistentVolumeClaimStatus {
	out := *local.Status.DeepCopy()
	if remote.Status.Phase != corev1.ClaimBound {
		return out
	}
	if size := policy.Amounts(remote.Status.Capacity)[corev1.ResourceStorage]; size.Sign() > 0 {
		out.Capacity = corev1.ResourceList{corev1.ResourceStorage: size}
	}
	out.Conditions = slices.DeleteFunc(out.Conditions, func(c corev1.PersistentVolumeClaimCondition) bool { return slices.Contains(reportedConditions, c.Type) })
	if !WasProvisioned(local) {
		out.Conditions = append(out.Conditions, corev1.PersistentVolumeClaimCondition{
			Type: names.ClaimProvisioned, Status: corev1.ConditionTrue, Reason: "Bound", LastTransitionTime: metav1.Now(),
		})
	}
	for _, t := range reportedConditions {
		i := slices.IndexFunc(remote.Status.Conditions, func(c corev1.PersistentVolumeClaimCondition) bool { return c.Type == t })
		if i < 0 {
			continue
		}
		c := &remote.Status.Conditions[i]
		out.Conditions = append(out.Conditions, corev1.PersistentVolumeClaimCondition{
			Type: t, Status: cleanConditionStatus(c.Status), LastTransitionTime: CleanTime(c.LastTransitionTime), LastProbeTime: CleanTime(c.LastProbeTime),
			Reason: policy.CleanLine(c.Reason, policy.MaxForeignReason), Message: policy.CleanText(c.Message, policy.MaxForeignMessage),
		})
	}
	return out
}

func cleanConditionStatus(s corev1.ConditionStatus) corev1.ConditionStatus {
	if isOneOf(s, corev1.ConditionTrue, corev1.ConditionFalse) {
		return s
	}
	return corev1.ConditionUnknown
}

// PodClaim is a claim that a pod mounts.
type PodClaim struct {
	// Volume is the name of the pod's volume, and Claim that of the local claim.
	Volume, Claim string
	// Generic is set for a generic ephemeral volume, whose claim the pod owns.
	Generic bool
}

// PodClaims returns the claims that a pod mounts.
func PodClaims(pod *corev1.Pod) []PodClaim {
	var out []PodClaim
	for i := range pod.Spec.Volumes {
		switch v := &pod.Spec.Volumes[i]; {
		case v.PersistentVolumeClaim != nil:
			out = append(out, PodClaim{Volume: v.Name, Claim: v.PersistentVolumeClaim.ClaimName})
		case v.Ephemeral != nil:
			out = append(out, PodClaim{Volume: v.Name, Claim: pod.Name + "-" + v.Name, Generic: true})
		}
	}
	return out
}

// mountClaims replaces the claims of virtual volumes by those in the provider.
func (in Input) mountClaims(volumes []corev1.Volume) []corev1.Volume {
	for i := range volumes {
		claim, ok := in.Claims[volumes[i].Name]
		if !ok {
			continue
		}
		source := &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim}
		if local := volumes[i].PersistentVolumeClaim; local != nil {
			source.ReadOnly = local.ReadOnly
		}
		volumes[i].VolumeSource = corev1.VolumeSource{PersistentVolumeClaim: source}
	}
	return volumes
}
