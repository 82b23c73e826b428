// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package storage

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/internal/kube"
)

// retryDelay is the retry interval after a refusal whose end no watch shows.
const retryDelay = 30 * time.Second

// followVolume keeps a bound claim, its virtual volume and the claim behind the volume of one size. The virtual kubelet writes the status of claims
// with data in a provider.
func (c *claims) followVolume(ctx context.Context, claim *corev1.PersistentVolumeClaim) error {
	volume, err := getOrNil(ctx, c.client, "", claim.Spec.VolumeName, &corev1.PersistentVolume{})
	if err != nil || volume == nil || volume.Spec.ClaimRef == nil || volume.Spec.ClaimRef.UID != claim.UID || claim.Status.Phase != corev1.ClaimBound {
		return err
	}
	if isRemote(volume) {
		return c.growVolume(ctx, volume, sizeOf(claim.Status.Capacity))
	}
	real, err := getOrNil(ctx, c.client, c.options.Namespace, realName(volume.Name), &corev1.PersistentVolumeClaim{})
	if err != nil {
		return err
	}
	if real == nil || real.Status.Phase == corev1.ClaimLost {
		return kube.Invalid(reasonLost, fmt.Errorf("the real claim %s/%s of volume %s, or its volume, does not exist any more", c.options.Namespace, realName(volume.Name), volume.Name))
	}
	if err := c.growReal(ctx, claim, real); err != nil {
		return err
	}
	if sizeOf(real.Spec.Resources.Requests).Cmp(*sizeOf(volume.Spec.Capacity)) > 0 { // a resize is under way
		realVolume, err := getOrNil(ctx, c.live, "", real.Spec.VolumeName, &corev1.PersistentVolume{})
		if err != nil {
			return err
		}
		if realVolume != nil {
			if err := c.growVolume(ctx, volume, sizeOf(realVolume.Spec.Capacity)); err != nil {
				return err
			}
		}
	}
	if isPending(real) && sizeOf(claim.Status.Capacity).Cmp(*sizeOf(volume.Spec.Capacity)) >= 0 {
		return c.endResize(ctx, real, sizeOf(volume.Spec.Capacity))
	}
	copyResize(claim, real)
	return nil
}

func sizeOf(list corev1.ResourceList) *resource.Quantity { return list.Storage() }

// growReal passes a larger request on to the real claim.
func (c *claims) growReal(ctx context.Context, claim, real *corev1.PersistentVolumeClaim) error {
	size := sizeOf(claim.Spec.Resources.Requests)
	if size.Cmp(*sizeOf(real.Spec.Resources.Requests)) <= 0 {
		return nil
	}
	want := real.DeepCopy()
	want.Spec.Resources.Requests[corev1.ResourceStorage] = *size
	err := c.client.Patch(ctx, want, client.MergeFrom(real))
	if apierrors.IsForbidden(err) || apierrors.IsInvalid(err) {
		return kube.Again(retryDelay, kube.Invalid(reasonResize, fmt.Errorf("resizing the real claim: %w", err)))
	}
	if err != nil {
		return fmt.Errorf("resizing the real claim: %w", err)
	}
	want.DeepCopyInto(real)
	return nil
}

// growVolume raises the capacity of a virtual volume.
func (c *claims) growVolume(ctx context.Context, volume *corev1.PersistentVolume, to *resource.Quantity) error {
	if to.Cmp(*sizeOf(volume.Spec.Capacity)) <= 0 {
		return nil
	}
	want := volume.DeepCopy()
	want.Spec.Capacity[corev1.ResourceStorage] = *to
	if err := c.client.Patch(ctx, want, client.MergeFrom(volume)); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("writing the capacity of volume %s: %w", volume.Name, err)
	}
	want.DeepCopyInto(volume)
	return nil
}

// isPending reports whether the file system of a claim waits for a node: the kubelet resizes the file system of the mounted virtual claim.
func isPending(claim *corev1.PersistentVolumeClaim) bool {
	return slices.ContainsFunc(claim.Status.Conditions, func(c corev1.PersistentVolumeClaimCondition) bool {
		return c.Type == corev1.PersistentVolumeClaimFileSystemResizePending && c.Status == corev1.ConditionTrue
	})
}

// endResize reports on the real claim that the kubelet has resized the file system.
func (c *claims) endResize(ctx context.Context, real *corev1.PersistentVolumeClaim, size *resource.Quantity) error {
	want := real.DeepCopy()
	want.Status.Capacity[corev1.ResourceStorage] = *size
	want.Status.Conditions, want.Status.AllocatedResources, want.Status.AllocatedResourceStatuses = withoutResize(want.Status.Conditions), nil, nil
	if err := c.client.Status().Patch(ctx, want, client.MergeFrom(real)); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("writing the status of the real claim: %w", err)
	}
	return nil
}

// ofResize are the conditions about resizing.
var ofResize = []corev1.PersistentVolumeClaimConditionType{
	corev1.PersistentVolumeClaimResizing, corev1.PersistentVolumeClaimFileSystemResizePending,
	corev1.PersistentVolumeClaimControllerResizeError, corev1.PersistentVolumeClaimNodeResizeError,
}

func withoutResize(list []corev1.PersistentVolumeClaimCondition) []corev1.PersistentVolumeClaimCondition {
	return slices.DeleteFunc(slices.Clone(list), func(c corev1.PersistentVolumeClaimCondition) bool { return slices.Contains(ofResize, c.Type) })
}

// copyResize copies the state of a resize to the status of the virtual claim. Other conditions, such as whether a pod uses the claim, belong to the
// virtual claim.
func copyResize(claim, real *corev1.PersistentVolumeClaim) {
	status := real.Status.DeepCopy()
	claim.Status.AllocatedResources, claim.Status.AllocatedResourceStatuses = status.AllocatedResources, status.AllocatedResourceStatuses
	claim.Status.Conditions = withoutResize(claim.Status.Conditions)
	for _, c := range status.Conditions {
		if slices.Contains(ofResize, c.Type) {
			claim.Status.Conditions = append(claim.Status.Conditions, c)
		}
	}
	if size := sizeOf(status.Capacity); size.Cmp(*sizeOf(claim.Status.Capacity)) > 0 {
		claim.Status.Capacity = corev1.ResourceList{corev1.ResourceStorage: *size}
	}
}
