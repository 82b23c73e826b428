// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package virtualkubelet

import (
	"context"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	offv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/names"
	"liqo.io/liqo/internal/policy"
	"liqo.io/liqo/internal/virtualkubelet/translate"
)

// fallback handles pods of this node in namespaces not offloaded to its provider: the pods cannot run, and fallback
// writes their status and removes them. Nothing is decided before the NamespaceMap is known.
type fallback struct {
	client client.Client
	// live reads fields missing in the cache: only the name and the owner of a pod are cached.
	live       client.Reader
	options    Options
	namespaces *remoteNamespaces
	events     *eventLog
	// remote reads from the provider; nil until it is known.
	remote func() client.Reader
}

// setupFallback registers the controller; wake signals that the offloading state of namespaces changed.
func setupFallback(mgr ctrl.Manager, f *fallback, wake <-chan event.GenericEvent) error {
	every := handler.EnqueueRequestsFromMapFunc(func(ctx context.Context, _ client.Object) []reconcile.Request {
		return kube.Requests(ctx, f.client, &corev1.PodList{}, kube.Every)
	})
	err := ctrl.NewControllerManagedBy(mgr).Named("unreflected-pods").
		For(&corev1.Pod{}).
		WatchesRawSource(source.Channel(wake, every)).
		Complete(f)
	if err != nil {
		return fmt.Errorf("registering the controller of pods that are not reflected: %w", err)
	}
	return nil
}

func (f *fallback) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	pod := &corev1.Pod{}
	if err := f.client.Get(ctx, req.NamespacedName, pod); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	state, remoteNamespace := f.namespaces.Standing(pod.Namespace)
	if state == unknown || state == reflected && !policy.KeptOff(pod) {
		return reconcile.Result{}, nil
	}
	if err := f.live.Get(ctx, req.NamespacedName, pod); err != nil || pod.Spec.NodeName != f.options.Node {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	return kube.Result(f.reconcilePod(ctx, pod, state, remoteNamespace))
}

func (f *fallback) reconcilePod(ctx context.Context, pod *corev1.Pod, state offloadingState, remoteNamespace string) error {
	kept := policy.KeptOff(pod)
	waits := translate.NeverStarted(pod) // the node's taint may evict it at once
	if state == absent && !kept && (waits || pod.DeletionTimestamp.IsZero() && !hasEnded(pod)) {
		f.events.ofOwner(pod, corev1.EventTypeWarning, reasonDisabled,
			fmt.Sprintf("Namespace %q is not offloaded to the cluster behind node %q", pod.Namespace, pod.Spec.NodeName))
	}
	if state == drained && !kept && pod.DeletionTimestamp.IsZero() && !hasEnded(pod) {
		f.events.ofOwner(pod, corev1.EventTypeWarning, reasonDrained, fmt.Sprintf("The provider behind node %q has drained the Tenant of this cluster: "+
			"it ended the pods of namespace %q and accepts no others until the Tenant is active again", pod.Spec.NodeName, pod.Namespace))
	}
	// A pod that ran in a namespace of a drained Tenant has failed, even if the pod was being deleted already.
	aborts := state == drained && !kept && !waits && !hasEnded(pod)
	switch {
	case !pod.DeletionTimestamp.IsZero() && !aborts:
		return f.releasePod(ctx, pod, state, remoteNamespace)
	case hasEnded(pod):
		return nil
	case state == pending && !waits:
		return nil // it may still run in the provider
	}
	want := pod.DeepCopy()
	want.Status = translate.NotReflected(pod)
	if err := writeStatus(ctx, f.client, pod, want); err != nil {
		return err
	}
	if kept {
		// The DaemonSet would replace a removed pod at once: the pod stays unchanged, and the DaemonSet gets one event.
		f.events.record(daemonSetOf(pod), corev1.EventTypeWarning, reasonDisabled, fmt.Sprintf("Its pods do not run on the virtual node %q. "+
			"To avoid this node, add a node affinity for %s NotIn [%s]; to run on it, add a toleration of the key %s",
			pod.Spec.NodeName, names.NodeType, names.NodeTypeVirtualNode, names.VirtualNodeTaint))
	}
	return nil
}

func daemonSetOf(pod *corev1.Pod) *appsv1.DaemonSet {
	owner := metav1.GetControllerOf(pod)
	return &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: owner.Name, UID: owner.UID}}
}

// retryRemote is how long to wait for a remote pod that no watch shows.
const retryRemote = 5 * time.Second

// releasePod removes a deleted pod once nothing of the pod is left in the provider. remoteNamespace is empty if there is none.
func (f *fallback) releasePod(ctx context.Context, pod *corev1.Pod, state offloadingState, remoteNamespace string) error {
	if remoteNamespace != "" && !policy.KeptOff(pod) {
		if err := f.removeFinished(ctx, pod, state, remoteNamespace); err != nil {
			return err
		}
	}
	if err := writeEnd(ctx, f.client, pod); err != nil {
		return err
	}
	err := f.client.Delete(ctx, pod, client.GracePeriodSeconds(0), client.Preconditions{UID: new(pod.UID)})
	if err := client.IgnoreNotFound(err); err != nil {
		return fmt.Errorf("deleting the local pod: %w", err)
	}
	return nil
}

func (f *fallback) removeFinished(ctx context.Context, pod *corev1.Pod, state offloadingState, remoteNamespace string) error {
	reader := f.remote()
	if reader == nil && ranRemotely(pod) {
		return kube.Wait(retryRemote, "the provider is not known yet")
	}
	if reader == nil {
		return nil
	}
	// The provider revokes the permissions of a drained Tenant and then terminates the pods, and does not answer until the Tenant is active again.
	withdrawn := state == drained && hasEnded(pod)
	return ensureRemoteGone(ctx, reader, f.options.targetIn(remoteNamespace), pod, withdrawn)
}

func ranRemotely(local *corev1.Pod) bool {
	return local.Labels[names.ShadowPod] == "true" || !translate.NeverStarted(local)
}

// ensureRemoteGone returns nil once the provider's API server, read live, has nothing of the pod. For a pod that has run in the provider,
// only the name counts: the provider's claim about the owner proves nothing. A pod that never ran remotely waits neither for a foreign
// pod of the same name, nor for an answer that may never come. With revoked permissions no pod waits.
func ensureRemoteGone(ctx context.Context, remote client.Reader, target translate.Target, local *corev1.Pod, withdrawn bool) error {
	wasThere := ranRemotely(local)
	for _, obj := range []client.Object{&offv1beta1.ShadowPod{}, &corev1.Pod{}} {
		err := remote.Get(ctx, client.ObjectKey{Namespace: target.Namespace, Name: local.Name}, obj)
		switch {
		case err == nil && (wasThere || target.OwnsPod(obj) && !translate.IsOfAnother(obj, local)):
			return kube.Wait(retryRemote, "the remote pod still exists")
		case apierrors.IsForbidden(err) && wasThere && !withdrawn:
			// Permissions end with the remote namespace. As long as its deletion is not certain, the pod stays.
			return kube.Wait(retryRemote, "the provider does not say whether the remote pod is gone")
		case err != nil && !apierrors.IsNotFound(err) && !apierrors.IsForbidden(err):
			return fmt.Errorf("looking for the remote pod: %w", err)
		}
	}
	return nil
}
