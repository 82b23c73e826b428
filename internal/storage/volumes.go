// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package storage

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/names"
	"liqo.io/liqo/internal/policy"
)

// inUse is Kubernetes' finalizer of bound volumes.
const inUse = "kubernetes.io/pv-protection"

// volumes deletes released virtual volumes, and the real claims of virtual volumes with data in this cluster. The virtual kubelet deletes the data in
// providers.
type volumes struct {
	client  client.Client
	options Options
}

// Sync deletes a volume whose claim is gone. The decision is bound to the version that it is about: "liqoctl move volume" gives a released
// volume to another claim.
func (v *volumes) Sync(ctx context.Context, volume *corev1.PersistentVolume) error {
	if !policy.IsReclaimed(volume) {
		return nil
	}
	uid, version := volume.UID, volume.ResourceVersion
	if err := v.client.Delete(ctx, volume, client.Preconditions{UID: &uid, ResourceVersion: &version}); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("deleting the released volume: %w", err)
	}
	return nil
}

// Cleanup deletes the real claim of an unused volume, or marks the claim as retained.
func (v *volumes) Cleanup(ctx context.Context, volume *corev1.PersistentVolume) error {
	if controllerutil.ContainsFinalizer(volume, inUse) {
		return kube.Wait(0, "the volume is in use")
	}
	real, err := getOrNil(ctx, v.client, v.options.Namespace, realName(volume.Name), &corev1.PersistentVolumeClaim{})
	if err != nil || real == nil {
		return err
	}
	if volume.Spec.PersistentVolumeReclaimPolicy != corev1.PersistentVolumeReclaimDelete {
		want := real.DeepCopy()
		want.Annotations[names.ReclaimPolicy] = string(corev1.PersistentVolumeReclaimRetain)
		if err := v.client.Patch(ctx, want, client.MergeFrom(real)); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("marking the real claim as retained: %w", err)
		}
		return nil
	}
	if err := kube.DeleteObject(ctx, v.client, real, "deleting the real claim"); err != nil {
		return err
	}
	return kube.Wait(0, "the real claim is going")
}

// requestsOfRealClaim returns the virtual volume of a real claim.
func (v *volumes) requestsOfRealClaim(_ context.Context, obj client.Object) []reconcile.Request {
	if obj.GetNamespace() != v.options.Namespace {
		return nil
	}
	return requestFor("", volumePrefix+obj.GetName())
}
