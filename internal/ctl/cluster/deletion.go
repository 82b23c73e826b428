// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/internal/ctl/ui"
	"liqo.io/liqo/internal/kube"
)

// IsDeleting reports whether the object is being deleted.
func IsDeleting(obj client.Object) bool { return obj.GetDeletionTimestamp() != nil }

// RequireDeletion fails if the user may not delete objects and wait until they are gone.
func (s *Cluster) RequireDeletion(ctx context.Context, all ...client.Object) error {
	var wanted []Permission
	for _, obj := range all {
		gvk, err := s.Kube.GroupVersionKindFor(obj)
		if err != nil {
			return err
		}
		mapping, err := s.Kube.RESTMapper().RESTMapping(gvk.GroupKind(), gvk.Version)
		if err != nil {
			return s.WrapWithCluster(err)
		}
		verbs := "get watch"
		if !IsDeleting(obj) {
			verbs += " delete"
		}
		wanted = append(wanted, Permissions(obj.GetNamespace(), mapping.Resource.GroupResource().String(), verbs)...)
	}
	return s.RequirePermissions(ctx, wanted...)
}

// RemoveAll deletes objects and waits until they are gone.
func (s *Cluster) RemoveAll(ctx context.Context, found []client.Object, wait bool) error {
	if err := kube.DeleteObjects(ctx, s.Kube, found); err != nil || !wait {
		return err
	}
	for _, obj := range found {
		if err := kube.WaitForDeletion(ctx, s.Kube, obj, nil); err != nil {
			return err
		}
	}
	return nil
}

// AwaitAll waits until controllers have deleted the objects, or fails with the reason why objects stay.
func (s *Cluster) AwaitAll(ctx context.Context, found []client.Object, stays func(client.Object) bool) error {
	for _, obj := range slices.DeleteFunc(found, stays) {
		pod, is := obj.(*corev1.Pod)
		if !is {
			if err := kube.WaitForDeletion(ctx, s.Kube, obj, stays); err != nil {
				return err
			}
			continue
		}
		confirmed, err := s.awaitEnded(ctx, pod)
		if err != nil {
			return err
		}
		if !confirmed {
			s.Warn("The node %s has not confirmed that the pod %s ended, and is lost or busy: the pod is shown until it does, or until the Node is deleted",
				pod.Spec.NodeName, client.ObjectKeyFromObject(pod))
		}
	}
	return nil
}

// confirmation is how long a node may take to confirm the end of a pod after the grace period.
const confirmation = 5 * time.Second

// awaitEnded waits until a pod is gone, or until its grace period is over. In the second case the end is unconfirmed: the node may be
// lost and never report.
func (s *Cluster) awaitEnded(ctx context.Context, pod *corev1.Pod) (confirmed bool, err error) {
	uid, exists := pod.UID, false
	err = kube.WaitForDeletion(ctx, s.Kube, pod, func(obj client.Object) bool {
		exists = hasEnded(obj) || IsDeleting(obj)
		return exists
	})
	if err != nil || !exists {
		return err == nil, err
	}
	within, cancel := context.WithTimeout(ctx, timeToEnd(pod, time.Now())+confirmation)
	defer cancel()
	if err := kube.WaitForDeletion(within, s.Kube, pod, nil); err == nil || within.Err() == nil || ctx.Err() != nil {
		return true, err
	}
	// The API server may have been unavailable meanwhile.
	if err := s.Kube.Get(ctx, client.ObjectKeyFromObject(pod), pod); err != nil {
		return true, client.IgnoreNotFound(err)
	}
	return pod.UID != uid || hasEnded(pod), nil
}

// timeToEnd returns the rest of the grace period of a pod. The clocks of both machines may differ: the result is at most the whole
// period.
func timeToEnd(pod *corev1.Pod, now time.Time) time.Duration {
	if pod.DeletionTimestamp == nil {
		return 0
	}
	var grace time.Duration
	if given := pod.DeletionGracePeriodSeconds; given != nil {
		grace = time.Duration(*given) * time.Second
	}
	return max(0, min(pod.DeletionTimestamp.Sub(now), grace))
}

// hasEnded reports whether no container of a pod runs any more, by the status written by the node.
func hasEnded(obj client.Object) bool {
	phase := obj.(*corev1.Pod).Status.Phase
	return phase == corev1.PodSucceeded || phase == corev1.PodFailed
}

// HeldBy waits until the pods in a terminating namespace are gone. It returns a pod whose end may never be confirmed, nil for none.
func (s *Cluster) HeldBy(ctx context.Context, ns *corev1.Namespace) (client.Object, error) {
	pods := &corev1.PodList{}
	if err := s.Kube.List(ctx, pods, client.InNamespace(ns.Name)); err != nil {
		if apierrors.IsForbidden(err) {
			return nil, nil
		}
		return nil, fmt.Errorf("looking for pods in %s: %w", ns.Name, err)
	}
	for i := range pods.Items {
		if confirmed, err := s.awaitEnded(ctx, &pods.Items[i]); err != nil || !confirmed {
			return &pods.Items[i], err
		}
	}
	return nil, nil
}

// PermissionsFor returns the permissions for actions. The namespace is for objects outside of the tenant namespace and of the Liqo namespace.
func (s *Cluster) PermissionsFor(in string, actions ...string) []Permission {
	return PermissionsFor(Namespaces{Tenant: s.Namespace, Liqo: s.LiqoNamespace, Object: in}, actions...)
}

// RequirePermissions is the permission check of the preflight: before the first change, it fails with all permissions that the user lacks. A new
// object in the missing tenant namespace also requires the permission to create the namespace.
func (s *Cluster) RequirePermissions(ctx context.Context, wanted ...Permission) error {
	isNew := func(p Permission) bool { return p.Verb == "create" && p.Namespace == s.Namespace }
	if s.WholeCluster().Missing && slices.ContainsFunc(wanted, isNew) {
		wanted = append(s.PermissionsFor("", "create tenant namespace"), wanted...)
	}
	missing, err := MissingPermissions(ctx, s.Kube, wanted)
	if err == nil && len(missing) > 0 {
		err = ui.Fail("you are not allowed to %s", Describe(missing)).Hint(askForRights).
			See("docs/troubleshooting.md#is-forbidden-or-you-are-not-allowed-to")
	}
	return s.WrapWithCluster(err)
}

// ItemsOf returns the items of a list.
func ItemsOf(list client.ObjectList) (all []client.Object) {
	_ = apimeta.EachListItem(list, func(obj runtime.Object) error {
		all = append(all, obj.(client.Object))
		return nil
	})
	return all
}
