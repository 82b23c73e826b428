// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package volume

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"sigs.k8s.io/controller-runtime/pkg/client"

	offv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/ctl/ui"
	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/names"
	"liqo.io/liqo/internal/policy"
)

// inputs are the objects of a move. Absent objects are nil.
type inputs struct {
	claim      *corev1.PersistentVolumeClaim
	class      *storagev1.StorageClass
	volume     *corev1.PersistentVolume
	target     *corev1.Node
	nodeName   string
	offloading *offv1beta1.NamespaceOffloading
	pods       []corev1.Pod
	image      string
}

func (m *move) gatherInputs(ctx context.Context) (*inputs, error) {
	in := &inputs{claim: &corev1.PersistentVolumeClaim{}, nodeName: m.targetNode, image: m.image}
	if err := m.kube.Get(ctx, m.claim, in.claim); apierrors.IsNotFound(err) {
		return nil, ui.Fail("PersistentVolumeClaim %s not found", m.claim)
	} else if err != nil {
		return nil, fmt.Errorf("reading the claim: %w", err)
	}
	var err error
	if name := in.claim.Spec.StorageClassName; name != nil && *name != "" {
		if in.class, err = getOrNil(ctx, m.kube, client.ObjectKey{Name: *name}, &storagev1.StorageClass{}); err != nil {
			return nil, err
		}
	}
	if in.claim.Spec.VolumeName != "" {
		if in.volume, err = getOrNil(ctx, m.kube, client.ObjectKey{Name: in.claim.Spec.VolumeName}, &corev1.PersistentVolume{}); err != nil {
			return nil, err
		}
	}
	if in.target, err = getOrNil(ctx, m.kube, client.ObjectKey{Name: m.targetNode}, &corev1.Node{}); err != nil {
		return nil, err
	}
	if in.offloading, err = getOrNil(ctx, m.kube, client.ObjectKey{Namespace: m.claim.Namespace, Name: names.NamespaceOffloading}, &offv1beta1.NamespaceOffloading{}); err != nil {
		return nil, err
	}
	if in.pods, err = m.listUsers(ctx, m.claim.Name); err != nil {
		return nil, err
	}
	if in.image == "" {
		in.image, err = m.findImage(ctx)
	}
	return in, err
}

// getOrNil returns an object, nil for a missing object.
func getOrNil[T client.Object](ctx context.Context, from client.Reader, key client.ObjectKey, obj T) (T, error) {
	var none T
	err := from.Get(ctx, key, obj)
	if apierrors.IsNotFound(err) {
		return none, nil
	}
	if err != nil {
		return none, fmt.Errorf("reading %T %s: %w", obj, key, err)
	}
	return obj, nil
}

// listUsers returns the pods that use a claim, without the pods of this command. Pods that ended do not use the claim.
func (m *move) listUsers(ctx context.Context, claim string) (users []corev1.Pod, err error) {
	var list corev1.PodList
	if err := m.kube.List(ctx, &list, client.InNamespace(m.claim.Namespace)); err != nil {
		return nil, fmt.Errorf("listing the pods: %w", err)
	}
	for i := range list.Items {
		pod := &list.Items[i]
		if pod.Labels[names.MovedClaim] == "" && !policy.Ended(pod.Status.Phase) && usesClaim(pod, claim) {
			users = append(users, *pod)
		}
	}
	return users, nil
}

// usesClaim reports whether a pod has a volume of a claim, including generic ephemeral volumes.
func usesClaim(pod *corev1.Pod, claim string) bool {
	for _, v := range pod.Spec.Volumes {
		if v.PersistentVolumeClaim != nil && v.PersistentVolumeClaim.ClaimName == claim || v.Ephemeral != nil && pod.Name+"-"+v.Name == claim {
			return true
		}
	}
	return false
}

// providerOf returns the cluster of a virtual node or of a volume whose data is in a provider, "" for the local cluster.
func providerOf(obj client.Object) string {
	if node, ok := obj.(*corev1.Node); ok && node.Labels[names.NodeType] != names.NodeTypeVirtualNode {
		return ""
	}
	return obj.GetLabels()[names.RemoteClusterID]
}

// isThere reports whether the data is reachable from the target node already.
func (in *inputs) isThere() bool {
	if in.volume == nil || in.target == nil || providerOf(in.volume) != providerOf(in.target) {
		return false
	}
	affinity := in.volume.Spec.NodeAffinity
	if affinity == nil || affinity.Required == nil {
		return true
	}
	selector, err := nodeaffinity.NewNodeSelector(affinity.Required)
	return err == nil && selector.Match(in.target)
}

// checkInputs returns why the claim cannot be moved.
func (in *inputs) checkInputs() error {
	name := client.ObjectKeyFromObject(in.claim).String()
	switch {
	case in.class == nil || in.class.Provisioner != names.StorageProvider:
		return ui.Fail("the StorageClass of %s is not one of Liqo", name).Hint("Only claims of a class with the provisioner %s can be moved", names.StorageProvider)
	case in.claim.DeletionTimestamp != nil:
		return ui.Fail("the claim %s is being deleted", name)
	case in.claim.Status.Phase != corev1.ClaimBound || in.volume == nil:
		return ui.Fail("the claim %s is not bound: it has no data", name).Hint("It is bound on the node of its first pod")
	case in.claim.Spec.VolumeMode != nil && *in.claim.Spec.VolumeMode == corev1.PersistentVolumeBlock:
		return ui.Fail("the claim %s is a block device: only file systems can be moved", name)
	case in.target == nil:
		return ui.Fail("node %q not found", in.nodeName)
	case !kube.NodeReady(in.target):
		return ui.Fail("node %q is not ready", in.nodeName)
	}
	if err := in.checkClusters(); err != nil {
		return err
	}
	return inUse(name, in.pods)
}

// checkClusters returns why the data cannot be moved between the clusters of both nodes.
func (in *inputs) checkClusters() error {
	from, to := providerOf(in.volume), providerOf(in.target)
	switch {
	case from == "" && to == "" && (in.offloading == nil || in.offloading.Spec.PodOffloadingStrategy != offv1beta1.RemotePodOffloadingStrategyType):
		return nil
	case to != "" && in.target.Labels[names.StorageAvailable] != "true":
		return ui.Fail("cluster %q offers no storage", to).Hint("Virtual nodes whose provider does have the label %s=true", names.StorageAvailable)
	case from != "" && to != "":
		return ui.Fail("the data is in cluster %q, which is not connected to cluster %q", from, to).Hint("Move it to a local node first, and then to %s", in.nodeName)
	case in.offloading == nil:
		return ui.Fail("namespace %q is not offloaded", in.claim.Namespace).Hint("Offload it first: liqoctl offload namespace %s", in.claim.Namespace)
	case in.offloading.Spec.PodOffloadingStrategy != offv1beta1.LocalAndRemotePodOffloadingStrategyType:
		return ui.Fail("the pods that copy run where the data is and where it goes to, and the strategy of namespace %q is %s", in.claim.Namespace, in.offloading.Spec.PodOffloadingStrategy).
			Hint("Offload it with --pod-offloading-strategy LocalAndRemote until the volume is moved")
	}
	return nil
}

// inUse returns the failure because of the pods that use a claim, nil if there are none.
func inUse(claim string, pods []corev1.Pod) error {
	if len(pods) == 0 {
		return nil
	}
	text := pods[0].Name
	if len(pods) > 1 {
		text = fmt.Sprintf("%s and %d more", text, len(pods)-1)
	}
	return ui.Fail("the claim %s is used by pod %s", claim, text).Hint("Delete the pod, or scale its owner to 0, until the volume is moved")
}
