// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package volume

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/internal/ctl/ui"
	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/names"
)

// swapAnnotation of the new volume has the swap while the claim is deleted and made again.
const swapAnnotation = "storage.liqo.io/move-claim"

// swap has all data to complete or take back the replacement of a claim, from any point.
type swap struct {
	// Claim is the claim to make again.
	Claim *corev1.PersistentVolumeClaim `json:"claim"`
	// UID is the UID of the deleted claim.
	UID       types.UID `json:"uid"`
	Temporary string    `json:"temporary"`
	OldVolume string    `json:"oldVolume"`
	// Policies of both volumes. The volumes are retained meanwhile.
	OldPolicy corev1.PersistentVolumeReclaimPolicy `json:"oldPolicy"`
	NewPolicy corev1.PersistentVolumeReclaimPolicy `json:"newPolicy"`
	// Forward is set once the claim is being deleted and no pod started with the claim after the copy was verified. Otherwise the claim gets the old
	// volume again: the copy may lack writes of the pod.
	Forward bool `json:"forward"`
}

func shortHash(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:4])
}

// bindingAnnotations are set by Kubernetes at the binding of a claim.
var bindingAnnotations = []string{
	"pv.kubernetes.io/bind-completed", "pv.kubernetes.io/bound-by-controller", "volume.kubernetes.io/selected-node", "volume.kubernetes.io/storage-provisioner",
	"volume.beta.kubernetes.io/storage-provisioner", "volume.kubernetes.io/storage-resizer",
}

func withoutBinding(annotations map[string]string) map[string]string {
	out := map[string]string{}
	maps.Copy(out, annotations)
	for _, key := range bindingAnnotations {
		delete(out, key)
	}
	return out
}

// commitSwap begins the swap: it records the swap, retains both volumes and deletes the claim.
func (m *move) commitSwap(ctx context.Context, in *inputs, temporary *corev1.PersistentVolumeClaim) error {
	if err := m.kube.Get(ctx, client.ObjectKeyFromObject(temporary), temporary); err != nil {
		return fmt.Errorf("reading the temporary claim: %w", err)
	}
	volume, err := getOrNil(ctx, m.kube, client.ObjectKey{Name: temporary.Spec.VolumeName}, &corev1.PersistentVolume{})
	if err != nil {
		return err
	}
	if volume == nil || temporary.Status.Phase != corev1.ClaimBound {
		return fmt.Errorf("the temporary claim %s is not bound any more", temporary.Name)
	}
	again := &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: m.claim.Namespace, Name: m.claim.Name, Labels: in.claim.Labels, Annotations: withoutBinding(in.claim.Annotations), OwnerReferences: in.claim.OwnerReferences,
		},
		Spec: *in.claim.Spec.DeepCopy(),
	}
	again.Spec.DataSource, again.Spec.DataSourceRef = nil, nil // the volume has the data
	s := &swap{
		Claim: again, UID: in.claim.UID, Temporary: temporary.Name, OldVolume: in.volume.Name,
		OldPolicy: in.volume.Spec.PersistentVolumeReclaimPolicy, NewPolicy: volume.Spec.PersistentVolumeReclaimPolicy,
	}
	if err := m.recordSwap(ctx, volume, s); err != nil {
		return err
	}
	if err := m.retainVolume(ctx, s.OldVolume); err != nil {
		return err
	}
	users, err := m.listUsers(ctx, m.claim.Name)
	if err == nil {
		err = inUse(m.claim.String(), users)
	}
	if err != nil {
		_, back := m.finishSwap(ctx)
		return errors.Join(err, back)
	}
	if err := m.kube.Delete(ctx, in.claim, client.Preconditions{UID: &s.UID}); err != nil {
		return fmt.Errorf("deleting the claim: %w", err)
	}
	// From now on, no further pod with the claim is scheduled.
	if users, err = m.listUsers(ctx, m.claim.Name); err != nil {
		return err
	}
	s.Forward = !slices.ContainsFunc(users, func(pod corev1.Pod) bool { return pod.Spec.NodeName != "" })
	return m.recordSwap(ctx, volume, s)
}

// recordSwap writes the swap to the new volume, and retains the volume.
func (m *move) recordSwap(ctx context.Context, volume *corev1.PersistentVolume, s *swap) error {
	text, err := json.Marshal(s)
	if err != nil {
		return err
	}
	return m.retainVolume(ctx, volume.Name, func(v *corev1.PersistentVolume) {
		metav1.SetMetaDataAnnotation(&v.ObjectMeta, swapAnnotation, string(text))
	})
}

// retainVolume retains a volume until releaseVolume.
func (m *move) retainVolume(ctx context.Context, volume string, changes ...func(*corev1.PersistentVolume)) error {
	return m.patchVolume(ctx, volume, append(changes, func(v *corev1.PersistentVolume) {
		metav1.SetMetaDataLabel(&v.ObjectMeta, names.MovedClaim, names.Label(m.claim.Name))
		v.Spec.PersistentVolumeReclaimPolicy = corev1.PersistentVolumeReclaimRetain
	})...)
}

// releaseVolume restores the policy of a volume, unless the volume was deleted.
func (m *move) releaseVolume(ctx context.Context, volume string, policy corev1.PersistentVolumeReclaimPolicy) error {
	return client.IgnoreNotFound(m.patchVolume(ctx, volume, func(v *corev1.PersistentVolume) {
		v.Spec.PersistentVolumeReclaimPolicy = policy
		delete(v.Labels, names.MovedClaim)
		delete(v.Annotations, swapAnnotation)
	}))
}

// patchVolume changes a volume. The error wraps NotFound if the volume was deleted, also between reading and writing.
func (m *move) patchVolume(ctx context.Context, name string, changes ...func(*corev1.PersistentVolume)) error {
	err := retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		volume := &corev1.PersistentVolume{}
		if err := m.kube.Get(ctx, client.ObjectKey{Name: name}, volume); err != nil {
			return err
		}
		before := volume.DeepCopy()
		for _, change := range changes {
			change(volume)
		}
		return m.kube.Patch(ctx, volume, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
	})
	if err != nil {
		return fmt.Errorf("changing volume %s: %w", name, err)
	}
	return nil
}

// findSwap returns the begun swap of the claim, and the new volume; nil for none.
func (m *move) findSwap(ctx context.Context) (*swap, string, error) {
	var list corev1.PersistentVolumeList
	if err := m.kube.List(ctx, &list, client.MatchingLabels{names.MovedClaim: names.Label(m.claim.Name)}); err != nil {
		return nil, "", fmt.Errorf("listing the volumes: %w", err)
	}
	for i := range list.Items {
		s, text := &swap{}, list.Items[i].Annotations[swapAnnotation]
		if text == "" { // an old volume
			continue
		}
		if err := json.Unmarshal([]byte(text), s); err != nil || s.Claim == nil {
			return nil, "", ui.Fail("volume %s has no valid annotation %s", list.Items[i].Name, swapAnnotation)
		}
		if client.ObjectKeyFromObject(s.Claim) == m.claim {
			return s, list.Items[i].Name, nil
		}
	}
	return nil, "", nil
}

// finishSwap completes or takes back a begun swap, and reports whether it was completed. At any time, a retained volume has all data.
func (m *move) finishSwap(ctx context.Context) (completed bool, err error) {
	s, newVolume, err := m.findSwap(ctx)
	if s == nil || err != nil {
		return false, err
	}
	current, err := getOrNil(ctx, m.kube, m.claim, &corev1.PersistentVolumeClaim{})
	if err != nil {
		return false, err
	}
	if current == nil || current.UID != s.UID || current.DeletionTimestamp != nil {
		if err := m.rebindClaim(ctx, s, newVolume); err != nil {
			return false, ui.Fail("%w", err).Hint("Nothing is lost: volumes %s and %s are retained. %s", s.OldVolume, newVolume, runAgain)
		}
	}
	// Otherwise the run was interrupted before the claim was deleted: pods may have used it since.
	if err := m.releaseVolume(ctx, s.OldVolume, s.OldPolicy); err != nil {
		return false, err
	}
	if s.Forward && s.OldPolicy == corev1.PersistentVolumeReclaimDelete {
		old := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: s.OldVolume}}
		if err := m.kube.Delete(ctx, old); client.IgnoreNotFound(err) != nil {
			return false, fmt.Errorf("deleting volume %s: %w", s.OldVolume, err)
		}
	} else if s.Forward {
		m.Warn("Volume %s with the old data stays, because its reclaim policy is %s", s.OldVolume, s.OldPolicy)
	}
	return s.Forward, m.releaseVolume(ctx, newVolume, s.NewPolicy)
}

// rebindClaim makes the claim again, bound to the new volume, or to the old volume if a pod got in between.
func (m *move) rebindClaim(ctx context.Context, s *swap, newVolume string) error {
	step := m.Spin("Binding the claim " + m.claim.String())
	defer step.Stop()
	ctx = kube.WithProgress(ctx, step.Waits)
	if err := m.awaitGone(ctx, m.claim.Name, s.UID); err != nil {
		return err
	}
	volume := s.OldVolume
	if s.Forward {
		volume = newVolume
		if err := m.deleteClaim(ctx, s.Temporary); err != nil {
			return err
		}
	}
	claim, err := getOrNil(ctx, m.kube, m.claim, &corev1.PersistentVolumeClaim{})
	if err != nil {
		return err
	}
	if claim == nil || claim.Spec.VolumeName != volume || claim.Status.Phase != corev1.ClaimBound {
		if err := m.reserveVolume(ctx, volume, claim); err != nil {
			return err
		}
	}
	if claim == nil {
		again := s.Claim.DeepCopy()
		again.Spec.VolumeName = volume
		if err := m.kube.Create(ctx, again); err != nil && !apierrors.IsAlreadyExists(err) {
			return fmt.Errorf("making the claim again: %w", err)
		}
	}
	return kube.WaitForReady(ctx, m.kube, &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: m.claim.Namespace, Name: m.claim.Name}},
		func(_ context.Context, claim *corev1.PersistentVolumeClaim) error {
			switch {
			case claim.Spec.VolumeName != "" && claim.Spec.VolumeName != volume:
				return ui.Fail("another client made the claim %s meanwhile, with volume %s instead of %s", m.claim, claim.Spec.VolumeName, volume)
			case claim.Status.Phase != corev1.ClaimBound:
				return kube.Pending("the claim " + m.claim.String() + " is not bound yet")
			}
			return nil
		})
}

// awaitGone waits until the claim with a UID is gone.
func (m *move) awaitGone(ctx context.Context, name string, uid types.UID) error {
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: m.claim.Namespace, Name: name}}
	return kube.WaitForObject(ctx, m.kube, claim, func(_ context.Context, exists bool) error {
		if exists && claim.UID == uid {
			return kube.Pending("the claim " + name + " is being deleted; is a pod using it?")
		}
		return nil
	})
}

// deleteClaim deletes a claim, and waits until the claim is gone.
func (m *move) deleteClaim(ctx context.Context, name string) error {
	claim, err := getOrNil(ctx, m.kube, client.ObjectKey{Namespace: m.claim.Namespace, Name: name}, &corev1.PersistentVolumeClaim{})
	if err != nil || claim == nil {
		return err
	}
	if err := m.kube.Delete(ctx, claim, client.Preconditions{UID: &claim.UID}); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("deleting the claim %s: %w", name, err)
	}
	return m.awaitGone(ctx, name, claim.UID)
}

// reserveVolume makes a volume available for the claim only, including a claim that another client makes under this name.
func (m *move) reserveVolume(ctx context.Context, volume string, claim *corev1.PersistentVolumeClaim) error {
	return m.patchVolume(ctx, volume, func(v *corev1.PersistentVolume) {
		if ref := v.Spec.ClaimRef; ref != nil && claim != nil && ref.UID == claim.UID {
			return
		}
		v.Spec.ClaimRef = &corev1.ObjectReference{APIVersion: "v1", Kind: "PersistentVolumeClaim", Namespace: m.claim.Namespace, Name: m.claim.Name}
	})
}

// removeCopy removes the temporary claims of the claim, with the copied data, and their pods.
func (m *move) removeCopy(ctx context.Context) error {
	if err := m.removeHelpers(ctx); err != nil {
		return err
	}
	var list corev1.PersistentVolumeClaimList
	if err := m.kube.List(ctx, &list, m.helperSelector()...); err != nil {
		return fmt.Errorf("listing the temporary claims: %w", err)
	}
	for i := range list.Items {
		if err := m.deleteClaim(ctx, list.Items[i].Name); err != nil {
			return err
		}
		m.Success("Removed the temporary claim %s", list.Items[i].Name)
	}
	return nil
}
