// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package peering

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	liqov1beta1 "liqo.io/liqo/api/core/v1beta1"
	offv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/names"
	"liqo.io/liqo/internal/peer"
)

// newBinding returns the RoleBinding of a grant. In a namespace in use it gets a finalizer: during the deletion of the whole namespace,
// the RoleBinding stays until the holders of the permissions have cleaned up, because without permissions they could not remove their
// own finalizers. In an unused namespace no finalizer may remain, because Liqo may be uninstalled.
func (t *tenantNamespaces) newBinding(grant grant, namespace string, id liqov1beta1.ClusterID) *rbacv1.RoleBinding {
	out := &rbacv1.RoleBinding{RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: grant.clusterRole}}
	out.Namespace, out.Name = namespace, names.RoleBinding(grant.clusterRole)
	out.Labels = map[string]string{names.AppManagedBy: names.ManagedByLiqo, names.RemoteClusterID: string(id)}
	out.Subjects = []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: t.liqoNamespace, Name: grant.serviceAccount}}
	return out
}

// revokeDelay is the interval for checking a namespace under cleanup, in case a watch misses the end: the peer may be
// away for days.
const revokeDelay = 15 * time.Second

func (t *tenantNamespaces) revokeBindings(ctx context.Context, namespace string) error {
	for _, grant := range allGrants() {
		var current rbacv1.RoleBinding
		if err := t.client.Get(ctx, types.NamespacedName{Namespace: namespace, Name: names.RoleBinding(grant.clusterRole)}, &current); err != nil {
			if client.IgnoreNotFound(err) == nil {
				continue
			}
			return fmt.Errorf("reading RoleBinding of %s: %w", grant.clusterRole, err)
		}
		if current.Labels[names.AppManagedBy] != names.ManagedByLiqo {
			continue
		}
		needed, err := t.usedBy(ctx, namespace)
		if err != nil {
			return err
		}
		if needed != "" {
			return kube.Wait(revokeDelay, "the rights are still needed to release "+needed)
		}
		if err := t.dropBinding(ctx, &current); err != nil {
			return err
		}
	}
	return nil
}

// usedBy returns an object of the namespace that a holder of the permissions must still release, or "".
func (t *tenantNamespaces) usedBy(ctx context.Context, namespace string) (string, error) {
	var secrets corev1.SecretList
	if err := t.live.List(ctx, &secrets, client.InNamespace(namespace), client.HasLabels{names.IdentityType}); err != nil {
		if apierrors.IsForbidden(err) {
			return "", nil // the permissions are already gone, so no cleanup is possible
		}
		return "", fmt.Errorf("listing Secrets of %s: %w", namespace, err)
	}
	for i := range secrets.Items {
		finalizers := secrets.Items[i].Finalizers
		if slices.Contains(finalizers, names.ReplicatorSecretFinalizer) || slices.Contains(finalizers, names.VirtualNodeFinalizer) {
			return "Secret " + secrets.Items[i].Name, nil
		}
	}
	// A VirtualNode not yet deleted will need the kubeconfig during deletion.
	var nodes offv1beta1.VirtualNodeList
	if err := t.live.List(ctx, &nodes, client.InNamespace(namespace)); err != nil {
		return "", fmt.Errorf("listing VirtualNodes of %s: %w", namespace, err)
	}
	for i := range nodes.Items {
		if controllerutil.ContainsFinalizer(&nodes.Items[i], names.VirtualNodeFinalizer) {
			return "VirtualNode " + nodes.Items[i].Name, nil
		}
	}
	return heldBy(ctx, t.live, namespace)
}

// heldBy returns an object of the namespace with a finalizer of the replicator, or "".
func heldBy(ctx context.Context, reader client.Reader, namespace string) (string, error) {
	for _, kind := range peer.Replicated() {
		if err := reader.List(ctx, kind.List, client.InNamespace(namespace)); err != nil {
			return "", fmt.Errorf("listing %s of %s: %w", kind.Plural, namespace, err)
		}
		found := ""
		_ = apimeta.EachListItem(kind.List, func(item runtime.Object) error {
			if obj := item.(client.Object); controllerutil.ContainsFinalizer(obj, names.ReplicatorFinalizer) {
				found = kind.Kind + " " + obj.GetName()
			}
			return nil
		})
		if found != "" {
			return found, nil
		}
	}
	return "", nil
}

// dropBinding deletes a binding and its finalizer.
func (t *tenantNamespaces) dropBinding(ctx context.Context, current *rbacv1.RoleBinding) error {
	if err := kube.DeleteObject(ctx, t.client, current, "deleting RoleBinding %s/%s", current.Namespace, current.Name); err != nil {
		return err
	}
	free := current.DeepCopy()
	controllerutil.RemoveFinalizer(free, names.TenantRightsFinalizer)
	if err := client.IgnoreNotFound(t.client.Patch(ctx, free, client.MergeFrom(current))); err != nil {
		return fmt.Errorf("releasing RoleBinding %s/%s: %w", current.Namespace, current.Name, err)
	}
	return nil
}

// isUsed reports whether a namespace has credentials, or objects that a holder of the permissions must release
// later.
func (t *tenantNamespaces) isUsed(ctx context.Context, namespace string) (bool, error) {
	if object, err := heldBy(ctx, t.client, namespace); err != nil || object != "" {
		return object != "", err
	}
	var secrets corev1.SecretList
	if err := t.secrets.List(ctx, &secrets, client.InNamespace(namespace)); err != nil {
		return false, fmt.Errorf("listing Secrets of %s: %w", namespace, err)
	}
	return len(secrets.Items) > 0, nil
}

func (t *tenantNamespaces) isGuarded(ctx context.Context, want *rbacv1.RoleBinding) bool {
	var current rbacv1.RoleBinding
	return t.client.Get(ctx, client.ObjectKeyFromObject(want), &current) == nil && controllerutil.ContainsFinalizer(&current, names.TenantRightsFinalizer)
}
