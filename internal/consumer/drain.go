// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package consumer

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	offv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/names"
	"liqo.io/liqo/internal/peer"
	"liqo.io/liqo/internal/policy"
)

// Cleanup is the teardown of a virtual node: drain, kubelet, permissions, Node, and with the last node of a provider the
// NamespaceMap. Each run does all possible steps and returns; no worker waits for a pod. Cleanup reads from the API server: a
// just created object is not in the cache, and would be orphaned.
func (v *virtualNodes) Cleanup(ctx context.Context, vn *offv1beta1.VirtualNode) error {
	if err := v.keepData(ctx, vn); err != nil {
		return err
	}
	// Other VirtualNodes read this condition to decide whether the node still needs shared objects.
	announced := statusOf(vn, kubeletCondition) == deleting
	setCondition(vn, nodeCondition, draining, "", metav1.Now())
	if !announced {
		if err := v.holdCredentials(ctx, vn); err != nil {
			return err
		}
	}
	if err := v.drainNode(ctx, vn); err != nil {
		return err
	}
	remaining, running := v.stopKubelet(ctx, vn)
	if running != nil && !kube.IsWait(running) {
		return running
	}
	setCondition(vn, kubeletCondition, deleting, remaining, metav1.Now())
	if !announced && statusOf(vn, kubeletCondition) == deleting { // not None, which stays
		return kube.Wait(announceDelay, "the status is being written")
	}
	shared := v.removeNamespaceMap(ctx, vn) // cleanup in the provider takes time, and no longer needs the kubelet
	if running != nil {
		return errors.Join(running, shared)
	}
	setCondition(vn, nodeCondition, deleting, "", metav1.Now())
	return errors.Join(shared, atOnce(
		func() error { return v.removeRights(ctx, vn) },
		func() error { return v.deleteNode(ctx, vn) },
		func() error { return v.releaseCredentials(ctx, vn) },
	))
}

// keepData blocks the teardown of the last virtual node of a provider while volumes have data in the provider: the remote namespaces
// are deleted with the last node.
func (v *virtualNodes) keepData(ctx context.Context, vn *offv1beta1.VirtualNode) error {
	if statusOf(vn, kubeletCondition) == deleting {
		return nil // the virtual kubelet, without which no claim goes, may have been stopped
	}
	provider := string(vn.Spec.ClusterID)
	volumes, others := &corev1.PersistentVolumeList{}, &offv1beta1.VirtualNodeList{}
	if err := v.direct.List(ctx, volumes, client.MatchingLabels{names.RemoteClusterID: provider}); err != nil {
		return fmt.Errorf("listing the volumes of the provider: %w", err)
	}
	data := policy.DataIn(volumes.Items, provider, "")
	if len(data) == 0 {
		return nil
	}
	if dead, _, err := givenUp(ctx, v.client, provider); err != nil || dead {
		return err
	}
	if err := v.direct.List(ctx, others); err != nil {
		return fmt.Errorf("listing the virtual nodes: %w", err)
	}
	if slices.ContainsFunc(others.Items, func(other offv1beta1.VirtualNode) bool {
		return other.UID != vn.UID && other.Spec.ClusterID == vn.Spec.ClusterID && other.DeletionTimestamp.IsZero()
	}) {
		return nil
	}
	held := dataInProvider(provider, data)
	setCondition(vn, nodeCondition, draining, held.Error(), metav1.Now())
	return kube.Again(dataDelay, held)
}

// dataDelay is the interval of checks whether data still holds up the end of a virtual node.
const dataDelay = 10 * time.Second

// keepKubelet ensures the kubelet to terminate the pods on a node, and the NamespaceMap needed by the kubelet. Both may be
// missing: the kubelet was stopped before a late pod arrived, or a stale cache recreated the Deployment without the map.
func (v *virtualNodes) keepKubelet(ctx context.Context, vn *offv1beta1.VirtualNode) error {
	deployed, mapped := true, true
	err := atOnce(
		func() error {
			err := v.direct.Get(ctx, client.ObjectKey{Namespace: vn.Namespace, Name: names.VirtualKubelet(vn.Name)}, &appsv1.Deployment{})
			if deployed = err == nil; client.IgnoreNotFound(err) != nil {
				return fmt.Errorf("reading the virtual kubelet's Deployment: %w", err)
			}
			return nil
		},
		func() error {
			maps, err := v.decidingMaps(ctx, vn)
			mapped = len(maps) > 0
			return err
		},
	)
	if err != nil {
		return err
	}
	uncached := *v
	uncached.client = v.direct
	switch {
	case !deployed:
		var template *offv1beta1.VkOptionsTemplate
		if template, err = v.readTemplate(ctx, vn); err == nil {
			_, err = uncached.runKubelet(ctx, vn, template)
		}
	case !mapped:
		var namespace string
		if namespace, err = uncached.tenantNamespace(ctx, vn); err == nil {
			err = uncached.ensureNamespaceMap(ctx, vn, namespace)
		}
	}
	if err != nil {
		return err
	}
	setCondition(vn, kubeletCondition, creating, "", metav1.Now()) // an earlier message about its end is outdated
	return nil
}

// atOnce runs independent steps concurrently, all of them despite failures, and joins the errors.
func atOnce(all ...func() error) error {
	errs := make([]error, len(all))
	var g errgroup.Group
	for i, do := range all {
		g.Go(func() error {
			errs[i] = do()
			return nil
		})
	}
	_ = g.Wait() // each has its own error
	return errors.Join(errs...)
}

const announceDelay = requeue / 20

// drainNode cordons the node and evicts its pods, including pods of a deleted Node. The dependencies of the pods are ensured first.
func (v *virtualNodes) drainNode(ctx context.Context, vn *offv1beta1.VirtualNode) error {
	node, err := v.readNode(ctx, v.direct, vn)
	if errors.Is(err, errNodeNameTaken) {
		return nil // the pods on a foreign Node are foreign as well, although they match our node name
	}
	if err != nil {
		return err
	}
	if node != nil && !node.Spec.Unschedulable {
		cordoned := node.DeepCopy()
		cordoned.Spec.Unschedulable = true
		if err := v.client.Patch(ctx, cordoned, client.MergeFrom(node)); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("cordoning the node: %w", err)
		}
	}
	// Of thousands of pods, as often as they are looked at, the rest is not worth reading.
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("PodList"))
	if err := v.direct.List(ctx, list, client.MatchingFields{"spec.nodeName": vn.Name}); err != nil {
		return fmt.Errorf("listing the pods of the node: %w", err)
	}
	pods := slices.DeleteFunc(slices.Clone(list.Items), staysOnNode)
	if len(pods) == 0 {
		return nil
	}
	dead, _, err := givenUp(ctx, v.client, string(vn.Spec.ClusterID))
	if err != nil {
		return err
	}
	if dead {
		if pods = slices.DeleteFunc(pods, isKept); len(pods) == 0 {
			return nil
		}
	}
	nothing, err := v.isRemoteGone(ctx, vn)
	if err != nil {
		return err
	}
	var kept error
	if !dead && !nothing {
		kept = v.keepKubelet(ctx, vn)
	}
	held, err := v.removeAll(ctx, pods, podEnding{dead: dead, remoteGone: nothing})
	setCondition(vn, nodeCondition, draining, drainProgress(len(pods), held, err), metav1.Now())
	v.drainWatcher.watchPodsOf(ctx, vn, list)
	if apiStatus := apierrors.APIStatus(nil); errors.As(err, &apiStatus) {
		return errors.Join(kept, kube.Again(requeue, kube.Invalid("EvictionFailed", err))) // the eviction may stay blocked, and other pods leave meanwhile
	}
	return errors.Join(kept, cmp.Or(err, kube.Wait(requeue, "pods are being drained")))
}

func drainProgress(remaining, held int, err error) string {
	out := fmt.Sprintf("%d pods are left", remaining)
	if held > 0 {
		out += fmt.Sprintf(", %d of them because of a PodDisruptionBudget", held)
	}
	if err != nil {
		first, _, _ := strings.Cut(err.Error(), "\n")
		out += ": " + first
	}
	return out
}

// staysOnNode reports whether a pod is left alone: pods of a DaemonSet are recreated while the node exists, and are
// deleted with it; static pods are not managed by Liqo.
func staysOnNode(pod metav1.PartialObjectMetadata) bool {
	if _, static := pod.Annotations[corev1.MirrorPodAnnotationKey]; static {
		return true
	}
	owner := metav1.GetControllerOf(&pod)
	return owner != nil && owner.Kind == "DaemonSet"
}

// isKept reports whether only finalizers keep the pod: it was deleted without a grace period, and their owners may
// never remove them.
func isKept(pod metav1.PartialObjectMetadata) bool {
	return pod.DeletionTimestamp != nil && pod.DeletionGracePeriodSeconds != nil && *pod.DeletionGracePeriodSeconds == 0 && len(pod.Finalizers) > 0
}

// podEnding is the state of the provider during a drain.
type podEnding struct {
	// dead: the user declared the peer as permanently lost.
	dead bool
	// remoteGone: the provider has no remote namespace any more, and no virtual kubelet is alive that could terminate the
	// pods.
	remoteGone bool
}

// isRemoteGone reports whether the tenant namespace is being deleted and our NamespaceMap is gone. In such a namespace, the virtual
// kubelet is deleted before its pods; the finalizer of the map remains until the provider has no remote namespace any more. In
// another state a missing map proves nothing: the map may never have existed or have lost its finalizer, and a kubelet may be
// alive.
func (v *virtualNodes) isRemoteGone(ctx context.Context, vn *offv1beta1.VirtualNode) (bool, error) {
	namespace := &corev1.Namespace{}
	err := v.direct.Get(ctx, client.ObjectKey{Name: vn.Namespace}, namespace)
	if client.IgnoreNotFound(err) != nil {
		return false, fmt.Errorf("reading the tenant namespace: %w", err)
	}
	if err == nil && namespace.DeletionTimestamp.IsZero() {
		return false, nil
	}
	maps, err := v.decidingMaps(ctx, vn)
	return len(maps) == 0, err
}

// removeAll removes the pods, and returns how many of them a disruption budget blocks. A failure does not stop the others; err
// is the first failure.
func (v *virtualNodes) removeAll(ctx context.Context, pods []metav1.PartialObjectMetadata, e podEnding) (held int, err error) {
	errs := make([]error, len(pods))
	var g errgroup.Group
	g.SetLimit(evictionsAtOnce)
	for i := range pods {
		g.Go(func() error {
			errs[i] = v.removePod(ctx, &pods[i], e)
			return nil
		})
	}
	_ = g.Wait() // each has its own error
	for i, failed := range errs {
		switch {
		case apierrors.IsTooManyRequests(failed):
			held++
		case client.IgnoreNotFound(failed) == nil, apierrors.IsConflict(failed):
		case err == nil:
			err = fmt.Errorf("evicting pod %s/%s: %w", pods[i].Namespace, pods[i].Name, failed)
		}
	}
	return held, err
}

// removePod evicts a pod, or deletes the pod if no kubelet can or needs to terminate it. An eviction blocked by a
// disruption budget is retried in the next run.
func (v *virtualNodes) removePod(ctx context.Context, pod *metav1.PartialObjectMetadata, e podEnding) error {
	terminating := !pod.DeletionTimestamp.IsZero()
	switch {
	case e.dead, e.remoteGone && terminating:
		return v.direct.Delete(ctx, &corev1.Pod{ObjectMeta: pod.ObjectMeta}, client.GracePeriodSeconds(0), client.Preconditions{UID: new(pod.UID)})
	case terminating:
		return nil
	default:
		return v.evictor.evictPod(ctx, pod.Namespace, pod.Name, pod.UID)
	}
}

// kubeletTimeout is how long the end of a virtual kubelet is left to the watch of its pods.
const kubeletTimeout = time.Minute

// stopKubelet deletes the Deployment and waits until its pods have ended: a running kubelet would recreate the Node. The deletion
// of ended pods, up to a second later, is not awaited. remaining names the awaited pods.
func (v *virtualNodes) stopKubelet(ctx context.Context, vn *offv1beta1.VirtualNode) (remaining string, err error) {
	d := &appsv1.Deployment{}
	err = v.direct.Get(ctx, client.ObjectKey{Namespace: vn.Namespace, Name: names.VirtualKubelet(vn.Name)}, d)
	if client.IgnoreNotFound(err) != nil {
		return "", fmt.Errorf("reading the virtual kubelet's Deployment: %w", err)
	}
	if err == nil && d.Labels[names.VirtualNode] == vn.Name {
		deleted, err := v.deleteDeployment(ctx, d)
		if err != nil {
			return "", err
		}
		if deleted {
			v.recorder.Eventf(vn, d, corev1.EventTypeNormal, "VkDeleted", "Delete", "virtual kubelet %s was removed", d.Name)
		}
	}
	pods := &corev1.PodList{}
	if err := v.direct.List(ctx, pods, client.InNamespace(vn.Namespace), client.MatchingLabels(kubeletLabels(vn)), client.MatchingFieldsSelector{Selector: mayRun}); err != nil {
		return "", fmt.Errorf("listing the virtual kubelet's pods: %w", err)
	}
	if len(pods.Items) == 0 {
		return "", nil
	}
	remaining, again := stoppingText(pods.Items, time.Now())
	return remaining, kube.Wait(again, remaining)
}

// confirmation is the time a node may take to report the end of a pod after its grace period.
const confirmation = 5 * time.Second

// stoppingText returns the message about the awaited pods of a virtual kubelet, and the delay until the next check: a lost node
// never reports the end of a pod, so no watch event arrives.
func stoppingText(pods []corev1.Pod, now time.Time) (text string, again time.Duration) {
	var all []string
	again = kubeletTimeout
	for i := range pods {
		pod := &pods[i]
		end := now // of a pod without a deletion timestamp
		if pod.DeletionTimestamp != nil {
			end = pod.DeletionTimestamp.Time
		}
		if remaining := end.Add(confirmation).Sub(now); remaining > 0 {
			all, again = append(all, "its pod "+pod.Name+" is stopping"), min(again, remaining)
			continue
		}
		all = append(all, fmt.Sprintf("the node %s has not confirmed that its pod %s ended, which was to by %s: if the node is lost for good, delete its Node",
			pod.Spec.NodeName, pod.Name, end.UTC().Format(time.RFC3339)))
	}
	slices.Sort(all)
	return strings.Join(all, ", "), again
}

func (v *virtualNodes) deleteDeployment(ctx context.Context, d *appsv1.Deployment) (deleted bool, err error) {
	if !d.DeletionTimestamp.IsZero() {
		return false, nil
	}
	err = v.client.Delete(ctx, d, client.Preconditions{UID: new(d.UID)}, client.PropagationPolicy(metav1.DeletePropagationBackground))
	if client.IgnoreNotFound(err) != nil {
		return false, fmt.Errorf("deleting the virtual kubelet's Deployment: %w", err)
	}
	return err == nil, nil
}

// removeRights revokes the permissions of ensureRights. The bindings in offloaded namespaces are deleted by
// their NamespaceOffloadings, which watch the VirtualNode.
func (v *virtualNodes) removeRights(ctx context.Context, vn *offv1beta1.VirtualNode) error {
	withdraw := func(obj client.Object) func() error {
		return func() error {
			if err := client.IgnoreNotFound(v.direct.Delete(ctx, obj)); err != nil {
				return fmt.Errorf("withdrawing the virtual kubelet's rights in its namespace: %w", err)
			}
			return nil
		}
	}
	return atOnce(
		func() error { return v.removeClusterRights(ctx, vn) },
		withdraw(tenantBinding(vn)),
		withdraw(tenantRole(vn)),
		func() error {
			namespace, err := v.tenantNamespace(ctx, vn)
			if err != nil || namespace == vn.Namespace {
				return ignoreWait(err) // without a tenant namespace, the role is gone as well
			}
			return errors.Join(withdraw(mapBinding(vn, namespace))(), withdraw(mapRole(vn, namespace))())
		},
		func() error { return v.removeAccount(ctx, vn) },
	)
}

// ignoreWait returns nil for a Wait, and any other error.
func ignoreWait(err error) error {
	if kube.IsWait(err) {
		return nil
	}
	return err
}

func (v *virtualNodes) removeClusterRights(ctx context.Context, vn *offv1beta1.VirtualNode) error {
	crb := &rbacv1.ClusterRoleBinding{}
	err := v.direct.Get(ctx, client.ObjectKey{Name: names.VirtualNodeBinding(vn.Name)}, crb)
	if err == nil && len(crb.Subjects) == 1 && crb.Subjects[0].Namespace == vn.Namespace { // not of a VirtualNode of the same name elsewhere
		err = v.direct.Delete(ctx, crb, client.Preconditions{UID: new(crb.UID)})
	}
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("withdrawing the virtual kubelet's rights in the cluster: %w", err)
	}
	return nil
}

func (v *virtualNodes) removeAccount(ctx context.Context, vn *offv1beta1.VirtualNode) error {
	account, err := v.ensureServiceAccount(ctx, vn)
	if err != nil || account == nil || !isAccountOf(vn, account) {
		return err
	}
	return kube.DeleteObject(ctx, v.direct, account, "deleting the virtual kubelet's account")
}

// deleteNode reads the Node again: the kubelet may have created the Node until the last moment.
func (v *virtualNodes) deleteNode(ctx context.Context, vn *offv1beta1.VirtualNode) error {
	node, err := v.readNode(ctx, v.direct, vn)
	if errors.Is(err, errNodeNameTaken) || err == nil && node == nil {
		return nil
	}
	if err != nil {
		return err
	}
	if err := v.client.Delete(ctx, node, client.Preconditions{UID: new(node.UID)}); client.IgnoreNotFound(err) != nil && !apierrors.IsConflict(err) {
		return fmt.Errorf("deleting the node: %w", err)
	}
	return nil
}

// removeNamespaceMap deletes the provider's NamespaceMap unless another VirtualNode needs it. A VirtualNode with an
// announced end needs no map: at least one of two concurrent teardowns deletes the map.
func (v *virtualNodes) removeNamespaceMap(ctx context.Context, vn *offv1beta1.VirtualNode) error {
	all, own := &offv1beta1.VirtualNodeList{}, []offv1beta1.NamespaceMap(nil)
	err := atOnce(
		func() error { return v.direct.List(ctx, all) },
		func() (err error) {
			own, err = v.ownMaps(ctx, vn)
			return err
		},
	)
	if err != nil {
		return fmt.Errorf("looking whether another VirtualNode needs the NamespaceMap: %w", err)
	}
	for i := range all.Items {
		other := &all.Items[i]
		ending := !other.DeletionTimestamp.IsZero() && statusOf(other, kubeletCondition) == deleting
		if other.UID != vn.UID && other.Spec.ClusterID == vn.Spec.ClusterID && !ending {
			return nil
		}
	}
	var errs []error
	for i := range own {
		if own[i].DeletionTimestamp.IsZero() {
			errs = append(errs, kube.DeleteObject(ctx, v.client, &own[i], "deleting NamespaceMap %q", own[i].Name))
		}
	}
	return errors.Join(errs...)
}

// ownMaps returns our NamespaceMaps for the provider: one, while the provider has any remote namespace. A map with edited labels
// is recognised by its name.
func (v *virtualNodes) ownMaps(ctx context.Context, vn *offv1beta1.VirtualNode) ([]offv1beta1.NamespaceMap, error) {
	list := &offv1beta1.NamespaceMapList{}
	if err := v.direct.List(ctx, list); err != nil {
		return nil, fmt.Errorf("listing NamespaceMaps: %w", err)
	}
	id := string(vn.Spec.ClusterID)
	return slices.DeleteFunc(list.Items, func(nm offv1beta1.NamespaceMap) bool {
		return peer.IsReplica(&nm) || nm.Name != id && nm.Labels[names.ReplicationDestination] != id
	}), nil
}

// decidingMaps returns the NamespaceMaps that the virtual kubelet of vn may use. For a map in a tenant namespace, maps in other
// tenant namespaces under deletion are excluded: their deletion may take for ever.
func (v *virtualNodes) decidingMaps(ctx context.Context, vn *offv1beta1.VirtualNode) ([]offv1beta1.NamespaceMap, error) {
	own, err := v.ownMaps(ctx, vn)
	if err != nil || !slices.ContainsFunc(own, func(nm offv1beta1.NamespaceMap) bool { return nm.Namespace != vn.Namespace }) {
		return own, err
	}
	list := &corev1.NamespaceList{}
	if err := v.direct.List(ctx, list, client.MatchingLabels{names.RemoteClusterID: string(vn.Spec.ClusterID), names.TenantNamespace: "true"}); err != nil {
		return nil, fmt.Errorf("listing the tenant namespaces: %w", err)
	}
	deleted := map[string]bool{}
	for i := range list.Items {
		deleted[list.Items[i].Name] = !list.Items[i].DeletionTimestamp.IsZero()
	}
	if _, inTenant := deleted[vn.Namespace]; !inTenant {
		return own, nil
	}
	return slices.DeleteFunc(own, func(nm offv1beta1.NamespaceMap) bool { return nm.Namespace != vn.Namespace && deleted[nm.Namespace] }), nil
}

// holdCredentials adds a finalizer to the kubeconfig of the virtual kubelet until its pods are drained: if the Secret is
// deleted together with the VirtualNode, a restarted kubelet could not terminate its pods. Without permission to add the
// finalizer, the kubelet continues with the kubeconfig in memory.
func (v *virtualNodes) holdCredentials(ctx context.Context, vn *offv1beta1.VirtualNode) error {
	secret, err := v.readCredentials(ctx, vn)
	if err != nil || secret == nil || !secret.DeletionTimestamp.IsZero() {
		return err
	}
	return v.patchSecret(ctx, secret, controllerutil.AddFinalizer)
}

// releaseCredentials removes the finalizer from the kubeconfig, unless another VirtualNode in teardown needs
// it.
func (v *virtualNodes) releaseCredentials(ctx context.Context, vn *offv1beta1.VirtualNode) error {
	secret, err := v.readCredentials(ctx, vn)
	if err != nil || secret == nil || !controllerutil.ContainsFinalizer(secret, names.VirtualNodeFinalizer) {
		return err
	}
	others := &offv1beta1.VirtualNodeList{}
	if err := v.direct.List(ctx, others, client.InNamespace(vn.Namespace)); err != nil {
		return fmt.Errorf("listing VirtualNodes: %w", err)
	}
	for i := range others.Items {
		other := &others.Items[i]
		ref := other.Spec.KubeconfigSecretRef
		needs := !other.DeletionTimestamp.IsZero() && statusOf(other, kubeletCondition) != deleting
		if other.UID != vn.UID && needs && ref != nil && ref.Name == secret.Name {
			return nil
		}
	}
	return v.patchSecret(ctx, secret, controllerutil.RemoveFinalizer)
}

// readCredentials returns the kubeconfig Secret, or nil if the Secret is missing or Liqo may not read it.
func (v *virtualNodes) readCredentials(ctx context.Context, vn *offv1beta1.VirtualNode) (*corev1.Secret, error) {
	ref := vn.Spec.KubeconfigSecretRef
	if ref == nil || ref.Name == "" {
		return nil, nil
	}
	secret := &corev1.Secret{}
	err := v.direct.Get(ctx, client.ObjectKey{Namespace: vn.Namespace, Name: ref.Name}, secret)
	switch {
	case apierrors.IsNotFound(err), apierrors.IsForbidden(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("reading the kubeconfig: %w", err)
	}
	return secret, nil
}

func (v *virtualNodes) patchSecret(ctx context.Context, secret *corev1.Secret, change func(client.Object, string) bool) error {
	before := secret.DeepCopy()
	if !change(secret, names.VirtualNodeFinalizer) {
		return nil
	}
	err := v.direct.Patch(ctx, secret, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
	if apierrors.IsForbidden(err) {
		return nil
	}
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("holding the kubeconfig: %w", err)
	}
	return nil
}
