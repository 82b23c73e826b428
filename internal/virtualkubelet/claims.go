// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package virtualkubelet

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	offv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/multicluster"
	"liqo.io/liqo/internal/names"
	"liqo.io/liqo/internal/virtualkubelet/translate"
)

// claimsKind and claimKindName name the kind to the engine and in events.
const (
	claimsKind    = "persistentvolumeclaims"
	claimKindName = "PersistentVolumeClaim"
)

// reasonVolumeLost is the reason of the event on a claim whose data the provider does not have any more.
const reasonVolumeLost = "VolumeLost"

// claimKind makes a claim in the provider for each virtual volume with data in the provider. An item is a volume: the data stays
// with the volume, even if the volume is bound to another local claim.
type claimKind struct {
	options Options
	patch   func() *offv1beta1.OffloadingPatch
	events  *eventLog
}

// virtualVolume returns the virtual volume of a claim in the provider.
func virtualVolume(obj client.Object) []string {
	if name := obj.GetAnnotations()[names.VirtualVolume]; name != "" {
		return []string{name}
	}
	return nil
}

func (k *claimKind) engineKind() multicluster.Kind {
	volumes := labels.Set{names.StorageProvisioner: "true", names.RemoteClusterID: string(k.options.Provider)}
	return multicluster.Kind{
		Name: claimsKind, Workers: k.options.Claims.Workers, Sync: k.syncItem,
		Local: []multicluster.Source{
			{Object: &corev1.PersistentVolumeClaim{}, Keys: func(obj client.Object) []string {
				if name := obj.(*corev1.PersistentVolumeClaim).Spec.VolumeName; name != "" {
					return []string{name}
				}
				return nil
			}},
			{Object: &corev1.PersistentVolume{}, Labels: volumes.String(), ClusterScoped: true},
		},
		// Providers of earlier versions do not allow reading claims.
		Remote: []multicluster.Source{{Object: &corev1.PersistentVolumeClaim{}, Labels: ownSelector(k.options), Keys: virtualVolume, Optional: true}},
	}
}

func (k *claimKind) involvedObject() (string, involvedResource) {
	kind := k.engineKind()
	return claimKindName, involvedResource{
		apiVersion: "v1", empty: func() client.Object { return &corev1.PersistentVolumeClaim{} }, local: kind.Local[:1], remote: kind.Remote,
	}
}

// claimItem is one virtual volume in both clusters. Absent objects are nil.
type claimItem struct {
	*multicluster.Item
	target translate.Target
	volume *corev1.PersistentVolume
	local  *corev1.PersistentVolumeClaim
	remote *corev1.PersistentVolumeClaim
}

func (k *claimKind) syncItem(ctx context.Context, item *multicluster.Item) error {
	it := &claimItem{Item: item, target: k.options.targetIn(item.Pair.Remote)}
	it.target.Patch = k.patch()
	volume := &corev1.PersistentVolume{}
	switch exists, err := item.Local.Get(item.Name, volume); {
	case err != nil:
		return fmt.Errorf("reading the volume: %w", err)
	case !exists:
		return k.dropClaims(ctx, it)
	case volume.Spec.ClaimRef == nil || volume.Spec.ClaimRef.Namespace != item.Pair.Local:
		return nil // of another namespace
	}
	it.volume = volume
	local := &corev1.PersistentVolumeClaim{}
	if exists, err := item.Local.Get(volume.Spec.ClaimRef.Name, local); err != nil {
		return fmt.Errorf("reading the local claim: %w", err)
	} else if exists && local.UID == volume.Spec.ClaimRef.UID {
		it.local = local
	}
	name := volume.Annotations[names.RemoteClaim]
	for _, remote := range multicluster.Of[*corev1.PersistentVolumeClaim](item.Remote, item.Name) {
		if remote.Name == name {
			it.remote = remote.DeepCopy()
		}
	}
	err := k.reconcileClaim(ctx, it)
	if it.local != nil {
		k.events.recordFailure(it.local, err)
	}
	return err
}

// dropClaims deletes the claims of a volume that is gone, unless the volume was retained.
func (k *claimKind) dropClaims(ctx context.Context, it *claimItem) error {
	var errs []error
	for _, remote := range multicluster.Of[*corev1.PersistentVolumeClaim](it.Remote, it.Name) {
		if remote.Annotations[names.ReclaimPolicy] == string(corev1.PersistentVolumeReclaimRetain) || !remote.DeletionTimestamp.IsZero() {
			continue
		}
		// The cache may lack the volume, and the data of a deleted claim is gone.
		switch err := it.Local.Client().Get(ctx, types.NamespacedName{Name: it.Name}, &corev1.PersistentVolume{}); {
		case err == nil:
			return kube.Wait(unseenDelay, "the cache does not have the volume yet")
		case !apierrors.IsNotFound(err):
			return fmt.Errorf("looking for the volume: %w", err)
		}
		errs = append(errs, it.Remote.Delete(ctx, remote))
	}
	return errors.Join(errs...)
}

func (k *claimKind) reconcileClaim(ctx context.Context, it *claimItem) error {
	switch {
	case it.remote == nil && (!it.volume.DeletionTimestamp.IsZero() || it.volume.Status.Phase == corev1.VolumeReleased || it.volume.Status.Phase == corev1.VolumeFailed):
		return nil
	case it.remote == nil:
		return k.makeClaim(ctx, it)
	case !it.remote.DeletionTimestamp.IsZero():
		return kube.Invalid(reasonVolumeLost, fmt.Errorf("the claim %s/%s of cluster %q is being deleted there", it.Pair.Remote, it.remote.Name, k.options.Provider))
	}
	_, err := it.Remote.Apply(ctx, it.target.RemoteClaim(it.volume, it.local, it.remote))
	if err != nil {
		err = fmt.Errorf("applying the remote claim: %w", err)
	}
	return errors.Join(err, k.reflectClaim(ctx, it))
}

// makeClaim makes the claim of a new volume. A lost claim is not made again: the new claim would be empty.
func (k *claimKind) makeClaim(ctx context.Context, it *claimItem) error {
	if it.local == nil {
		return kube.Wait(unseenDelay, "the cache does not have the claim of the volume yet")
	}
	name := it.volume.Annotations[names.RemoteClaim]
	if translate.WasProvisioned(it.local) {
		return kube.Again(againDelay, kube.Invalid(reasonVolumeLost, fmt.Errorf("the claim %s/%s, which has the data, does not exist in cluster %q any more",
			it.Pair.Remote, name, k.options.Provider)))
	}
	if created, err := it.Remote.Make(ctx, it.target.RemoteClaim(it.volume, it.local, nil)); err != nil {
		return fmt.Errorf("making the remote claim: %w", err)
	} else if created {
		k.events.recordNormal(it.local, reasonReflected, fmt.Sprintf("Successfully reflected object to cluster %q", k.options.Provider))
		return nil
	}
	live := &corev1.PersistentVolumeClaim{}
	if err := it.Remote.Client().Get(ctx, types.NamespacedName{Namespace: it.Pair.Remote, Name: name}, live); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("looking for the remote claim: %w", err)
	}
	switch {
	case live.Name == "" || !live.DeletionTimestamp.IsZero():
		return kube.Wait(unseenDelay, "the remote claim of an earlier volume is going")
	case !it.target.Owns(live):
		return kube.Again(againDelay, nameTaken(it.Item, name))
	case live.Annotations[names.VirtualVolume] == it.Name:
		return kube.Wait(unseenDelay, "the cache does not have the remote claim yet")
	case live.Annotations[names.ReclaimPolicy] == string(corev1.PersistentVolumeReclaimRetain):
		return kube.Again(againDelay, kube.Invalid(reasonFailed, fmt.Errorf("the claim %s/%s of cluster %q has the data of the retained volume %s",
			it.Pair.Remote, name, k.options.Provider, live.Annotations[names.VirtualVolume])))
	}
	return kube.Wait(unseenDelay, "the remote claim of an earlier volume is not deleted yet")
}

// reflectClaim writes capacity and conditions of the provider to the status of the local claim.
func (k *claimKind) reflectClaim(ctx context.Context, it *claimItem) error {
	if it.remote.Status.Phase == corev1.ClaimLost {
		return kube.Invalid(reasonVolumeLost, fmt.Errorf("the claim %s/%s of cluster %q lost its volume", it.Pair.Remote, it.remote.Name, k.options.Provider))
	}
	if it.local == nil || it.local.Status.Phase != corev1.ClaimBound || !it.local.DeletionTimestamp.IsZero() {
		return nil
	}
	want := it.local.DeepCopy()
	want.Status = translate.ClaimStatus(it.local, it.remote)
	return it.Local.UpdateStatus(ctx, want)
}

// warnPods records a warning of the provider about a claim on the pods that wait for the claim: the pods' own events show the problem only
// when the provider's scheduler gives up, after ten minutes.
func (k *claimKind) warnPods(ctx context.Context, it *multicluster.Item, claim string, e *corev1.Event) error {
	var pods corev1.PodList
	if err := it.Local.Client().List(ctx, &pods, client.InNamespace(it.Pair.Local)); err != nil {
		return fmt.Errorf("listing the pods of the claim %s: %w", claim, err)
	}
	for i := range pods.Items {
		pod := &pods.Items[i]
		mounts := slices.ContainsFunc(translate.PodClaims(pod), func(c translate.PodClaim) bool { return c.Claim == claim })
		if mounts && pod.Spec.NodeName != "" && translate.NeverStarted(pod) {
			k.events.record(pod, corev1.EventTypeWarning, reasonClaimWarning, fmt.Sprintf("in cluster %q, claim %q: %s: %s", k.options.Provider, claim, e.Reason, e.Message))
		}
	}
	return nil
}

// Reasons of the event and the condition of a pod that waits for claims.
const (
	reasonClaimWarning   = "RemoteClaimFailed"
	reasonClaimElsewhere = "ClaimNotReflected"
	reasonClaimMissing   = "ClaimNotReflectedYet"
)

// awaitClaims finds the claims in the provider that a new pod mounts, and makes the pod wait for missing claims.
func (k *podKind) awaitClaims(ctx context.Context, it *podItem) error {
	it.claims = map[string]string{}
	for _, mount := range translate.PodClaims(it.local) {
		volume, problem, err := k.findVolume(ctx, it, mount)
		switch {
		case err != nil:
			return err
		case problem != "":
			return k.refuseClaim(ctx, it, reasonClaimElsewhere, problem, versionInterval)
		case volume == nil:
			continue // the pod names a claim of the provider, or brings one
		}
		name, remote := volume.Annotations[names.RemoteClaim], &corev1.PersistentVolumeClaim{}
		err = it.Remote.Client().Get(ctx, types.NamespacedName{Namespace: it.Pair.Remote, Name: name}, remote)
		if err == nil && it.target.Owns(remote) && remote.Annotations[names.VirtualVolume] == volume.Name {
			it.claims[mount.Volume] = name
			continue
		}
		if client.IgnoreNotFound(err) != nil && !apierrors.IsForbidden(err) {
			return fmt.Errorf("looking for the claim of the provider: %w", err)
		}
		return k.waitForClaim(ctx, it, mount)
	}
	return nil
}

// waitForClaim publishes on the pod that a claim is not in the provider, after some time. The pod does not start without the claim, although
// it would on an ordinary node.
func (k *podKind) waitForClaim(ctx context.Context, it *podItem, mount translate.PodClaim) error {
	now, since := k.states.now(), k.states.now()
	k.states.withState(it.local, func(m *podState) {
		if !m.since.IsZero() {
			since = m.since
		}
	})
	waited := now.Sub(since)
	if waited < referenceTimeout {
		return kube.Wait(delayAfter(waited), "a claim that the pod mounts is not in the provider yet")
	}
	text := fmt.Sprintf("claim %q is not in cluster %q yet: the events of the claim tell why", mount.Claim, k.options.Provider)
	return k.refuseClaim(ctx, it, reasonClaimMissing, text, maxReferenceDelay)
}

func (k *podKind) refuseClaim(ctx context.Context, it *podItem, reason, text string, retry time.Duration) error {
	if err := k.markRefused(ctx, it, reason, text); err != nil {
		return err
	}
	k.events.record(it.local, corev1.EventTypeWarning, reason, text)
	return kube.Wait(retry, text)
}

// findVolume returns the virtual volume of a claim with data in the provider; nil if the claim name in the pod is a name of the provider;
// or why the pod cannot mount the claim in the provider.
func (k *podKind) findVolume(ctx context.Context, it *podItem, mount translate.PodClaim) (of *corev1.PersistentVolume, problem string, err error) {
	local := &corev1.PersistentVolumeClaim{}
	err = it.Local.Client().Get(ctx, types.NamespacedName{Namespace: it.Pair.Local, Name: mount.Claim}, local)
	if apierrors.IsNotFound(err) || apierrors.IsForbidden(err) {
		return nil, "", nil
	} else if err != nil {
		return nil, "", fmt.Errorf("reading the claim %s: %w", mount.Claim, err)
	}
	volume := &corev1.PersistentVolume{}
	if local.Spec.VolumeName != "" {
		err := it.Local.Client().Get(ctx, types.NamespacedName{Name: local.Spec.VolumeName}, volume)
		if client.IgnoreNotFound(err) != nil {
			return nil, "", fmt.Errorf("reading the volume %s: %w", local.Spec.VolumeName, err)
		}
	}
	if volume.Labels[names.StorageProvisioner] != "" && volume.Labels[names.RemoteClusterID] == string(k.options.Provider) {
		return volume, "", nil
	}
	if mount.Generic {
		return nil, "", nil // the provider decides about volumes of this kind
	}
	// The provider may have made a claim of this name itself.
	err = it.Remote.Client().Get(ctx, types.NamespacedName{Namespace: it.Pair.Remote, Name: mount.Claim}, &corev1.PersistentVolumeClaim{})
	if err == nil || apierrors.IsForbidden(err) {
		return nil, "", nil
	} else if !apierrors.IsNotFound(err) {
		return nil, "", fmt.Errorf("looking for the claim of the provider: %w", err)
	}
	class := ""
	if local.Spec.StorageClassName != nil {
		class = *local.Spec.StorageClassName
	}
	return nil, fmt.Sprintf("claim %q of StorageClass %q has no data in cluster %q: use a StorageClass of the provisioner %s, let the scheduler place the first pod of the claim, or make a claim of that name in namespace %s of that cluster",
		mount.Claim, class, k.options.Provider, names.StorageProvider, it.Pair.Remote), nil
}
