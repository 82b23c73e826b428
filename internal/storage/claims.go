// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package storage

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	offv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/names"
	"liqo.io/liqo/internal/peer"
)

// claims binds the virtual claims, and keeps them equal to the claims behind their volumes.
type claims struct {
	client client.Client
	// live bypasses the cache, for volumes that are not virtual and for decisions that need current data.
	live     client.Reader
	recorder events.EventRecorder
	options  Options
}

// Sync reconciles a virtual claim, or removes an orphaned real claim. All other claims are ignored.
func (c *claims) Sync(ctx context.Context, claim *corev1.PersistentVolumeClaim) error {
	if c.isReal(claim) {
		return c.dropOrphan(ctx, claim)
	}
	if claim.Spec.VolumeName != "" {
		return c.followVolume(ctx, claim)
	}
	class := &storagev1.StorageClass{}
	if err := c.client.Get(ctx, types.NamespacedName{Name: classOf(claim)}, class); err != nil || class.Provisioner != names.StorageProvider {
		return client.IgnoreNotFound(err)
	}
	in, err := c.gatherInputs(ctx, claim, class)
	if err != nil {
		return err
	}
	what, err := decideBinding(in)
	if err != nil {
		return err
	}
	return c.applyBinding(ctx, in, what)
}

// isReal reports whether a claim was made for a virtual claim.
func (c *claims) isReal(claim *corev1.PersistentVolumeClaim) bool {
	return claim.Namespace == c.options.Namespace && claim.Annotations[names.VirtualClaimName] != ""
}

func (c *claims) gatherInputs(ctx context.Context, claim *corev1.PersistentVolumeClaim, class *storagev1.StorageClass) (bindingInputs, error) {
	in := bindingInputs{claim: claim, class: class, storageNamespace: c.options.Namespace}
	var err error
	if in.real, err = getOrNil(ctx, c.client, c.options.Namespace, string(claim.UID), &corev1.PersistentVolumeClaim{}); err != nil {
		return in, err
	}
	if in.real != nil && in.real.Spec.VolumeName != "" {
		if in.realVolume, err = getOrNil(ctx, c.live, "", in.real.Spec.VolumeName, &corev1.PersistentVolume{}); err != nil {
			return in, err
		}
	}
	if name := claim.Annotations[selectedNode]; name != "" {
		if in.node, err = getOrNil(ctx, c.client, "", name, &corev1.Node{}); err != nil {
			return in, err
		}
		if in.virtualNode, err = c.findVirtualNode(ctx, name); err != nil {
			return in, err
		}
	}
	if in.virtualNode != nil {
		if err := c.gatherMapping(ctx, &in); err != nil {
			return in, err
		}
	}
	var classes storagev1.StorageClassList
	if err := c.client.List(ctx, &classes, client.UnsafeDisableDeepCopy); err != nil {
		return in, fmt.Errorf("listing the storage classes: %w", err)
	}
	in.realClass, in.noClass = chooseRealClass(classes.Items, c.options.RealStorageClass)
	var virtual corev1.PersistentVolumeList
	if err := c.client.List(ctx, &virtual, client.HasLabels{names.StorageProvisioner}, client.UnsafeDisableDeepCopy); err != nil {
		return in, fmt.Errorf("listing the virtual volumes: %w", err)
	}
	in.volumes = virtual.Items
	return in, nil
}

// gatherMapping reads whether the namespace is offloaded to the provider of the selected node.
func (c *claims) gatherMapping(ctx context.Context, in *bindingInputs) error {
	var maps offv1beta1.NamespaceMapList
	if err := c.client.List(ctx, &maps, client.MatchingLabels{names.RemoteClusterID: string(in.virtualNode.Spec.ClusterID)}, client.UnsafeDisableDeepCopy); err != nil {
		return fmt.Errorf("listing the namespace maps: %w", err)
	}
	for i := range maps.Items {
		_, mapped := maps.Items[i].Spec.DesiredMapping[in.claim.Namespace]
		in.mapped = in.mapped || mapped && !peer.IsReplica(&maps.Items[i])
	}
	nso, err := getOrNil(ctx, c.client, in.claim.Namespace, names.NamespaceOffloading, &offv1beta1.NamespaceOffloading{})
	in.offloaded = nso != nil && nso.DeletionTimestamp.IsZero()
	return err
}

// getOrNil reads an object, nil for a missing object.
func getOrNil[T client.Object](ctx context.Context, from client.Reader, namespace, name string, into T) (T, error) {
	if err := from.Get(ctx, types.NamespacedName{Namespace: namespace, Name: name}, into); err != nil {
		var none T
		if apierrors.IsNotFound(err) {
			return none, nil
		}
		return none, fmt.Errorf("reading %T %s: %w", into, name, err)
	}
	return into, nil
}

// findVirtualNode returns the VirtualNode of a Node, nil if there is none. Their names are unique in the cluster.
func (c *claims) findVirtualNode(ctx context.Context, node string) (*offv1beta1.VirtualNode, error) {
	var list offv1beta1.VirtualNodeList
	if err := c.client.List(ctx, &list); err != nil {
		return nil, fmt.Errorf("listing the virtual nodes: %w", err)
	}
	for i := range list.Items {
		if list.Items[i].Name == node {
			return &list.Items[i], nil
		}
	}
	return nil, nil
}

func (c *claims) applyBinding(ctx context.Context, in bindingInputs, what binding) error {
	switch {
	case what.volume != nil:
		return c.makeVolume(ctx, in, what.volume)
	case what.real != nil:
		return c.makeReal(ctx, what.real)
	case what.dropReal:
		return kube.DeleteObject(ctx, c.client, in.real, "deleting the real claim")
	case what.reschedule != "":
		if in.real != nil {
			if err := kube.DeleteObject(ctx, c.client, in.real, "deleting the real claim"); err != nil {
				return err
			}
		}
		return c.unselectNode(ctx, in.claim, what.reschedule)
	}
	return nil
}

func (c *claims) makeVolume(ctx context.Context, in bindingInputs, volume *corev1.PersistentVolume) error {
	if !isRemote(volume) {
		volume.Finalizers = []string{names.VirtualVolumeFinalizer}
	}
	switch err := c.client.Create(ctx, volume); {
	case apierrors.IsAlreadyExists(err):
		return kube.Wait(0, "Kubernetes has not bound the volume yet")
	case err != nil:
		return fmt.Errorf("making the volume %s: %w", volume.Name, err)
	}
	where := "this cluster"
	if provider := volume.Labels[names.RemoteClusterID]; provider != "" {
		where = fmt.Sprintf("cluster %q", provider)
	}
	c.recorder.Eventf(in.claim, nil, corev1.EventTypeNormal, reasonSucceeded, "Bind", "Volume %s is in %s", volume.Name, where)
	return nil
}

// makeReal makes a real claim, and a missing namespace. The namespace is not part of the chart: an uninstallation would delete the namespace, and all
// data.
func (c *claims) makeReal(ctx context.Context, claim *corev1.PersistentVolumeClaim) error {
	err := c.client.Create(ctx, claim)
	if apierrors.IsNotFound(err) {
		namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: claim.Namespace, Labels: map[string]string{names.StorageProvisioner: "true"}}}
		if err := c.client.Create(ctx, namespace); err != nil && !apierrors.IsAlreadyExists(err) {
			return fmt.Errorf("making the namespace of real claims: %w", err)
		}
		err = c.client.Create(ctx, claim)
	}
	switch {
	case err == nil || apierrors.IsAlreadyExists(err):
		return nil
	case apierrors.IsForbidden(err) || apierrors.IsInvalid(err):
		return kube.Again(retryDelay, kube.Invalid(reasonFailed, fmt.Errorf("making the real claim: %w", err)))
	}
	return fmt.Errorf("making the real claim: %w", err)
}

// unselectNode has the scheduler choose again.
func (c *claims) unselectNode(ctx context.Context, claim *corev1.PersistentVolumeClaim, why string) error {
	want := claim.DeepCopy()
	delete(want.Annotations, selectedNode)
	if err := c.client.Patch(ctx, want, client.MergeFromWithOptions(claim, client.MergeFromWithOptimisticLock{})); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("asking the scheduler for another node: %w", err)
	}
	return kube.Invalid(reasonReschedule, errors.New(why))
}

// dropOrphan deletes a real claim without a virtual volume, if the virtual claim was deleted before it was bound.
func (c *claims) dropOrphan(ctx context.Context, real *corev1.PersistentVolumeClaim) error {
	if real.Annotations[names.ReclaimPolicy] == string(corev1.PersistentVolumeReclaimRetain) || !real.DeletionTimestamp.IsZero() {
		return nil
	}
	virtual, err := getOrNil(ctx, c.live, real.Annotations[names.VirtualClaimNamespace], real.Annotations[names.VirtualClaimName], &corev1.PersistentVolumeClaim{})
	if err != nil || virtual != nil && string(virtual.UID) == real.Name {
		return err
	}
	volume, err := getOrNil(ctx, c.live, "", volumePrefix+real.Name, &corev1.PersistentVolume{})
	if err != nil || volume != nil {
		return err
	}
	return kube.DeleteObject(ctx, c.client, real, "deleting the real claim of no claim")
}

// findCounterpart returns the virtual claims of a real claim: the virtual claim at its creation, and the virtual claim now bound to its volume. For a
// virtual claim, it returns the real claim.
func (c *claims) findCounterpart(ctx context.Context, obj client.Object) []reconcile.Request {
	claim := obj.(*corev1.PersistentVolumeClaim)
	if c.isReal(claim) {
		out := requestFor(claim.Annotations[names.VirtualClaimNamespace], claim.Annotations[names.VirtualClaimName])
		volume := &corev1.PersistentVolume{}
		if err := c.client.Get(ctx, types.NamespacedName{Name: volumePrefix + claim.Name}, volume); err == nil {
			out = append(out, requestsOfVolume(ctx, volume)...)
		}
		return out
	}
	return requestFor(c.options.Namespace, string(claim.UID))
}

// requestsOfVolume returns the claim of a virtual volume.
func requestsOfVolume(_ context.Context, obj client.Object) []reconcile.Request {
	if ref := obj.(*corev1.PersistentVolume).Spec.ClaimRef; ref != nil && isVirtual(obj) {
		return requestFor(ref.Namespace, ref.Name)
	}
	return nil
}

// waitingClaims returns the unbound claims with a selected node.
func (c *claims) waitingClaims(ctx context.Context, _ client.Object) []reconcile.Request {
	var list corev1.PersistentVolumeClaimList
	if err := c.client.List(ctx, &list, client.UnsafeDisableDeepCopy); err != nil {
		return nil
	}
	var out []reconcile.Request
	for i := range list.Items {
		if claim := &list.Items[i]; claim.Spec.VolumeName == "" && claim.Annotations[selectedNode] != "" && !c.isReal(claim) {
			out = append(out, requestFor(claim.Namespace, claim.Name)...)
		}
	}
	return out
}
