// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package auth

import (
	"context"
	"fmt"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	authv1beta1 "liqo.io/liqo/api/authentication/v1beta1"
	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/names"
	"liqo.io/liqo/internal/policy"
)

// The permissions of a consumer are two bindings: cluster-wide for its virtual kubelets, and in the tenant namespace for its
// control plane, if the Tenant exchanges keys.

// bindingName is the name of the binding of the cluster-wide rights of a consumer.
func bindingName(tenant *authv1beta1.Tenant) string {
	return names.ClusterRoleBinding(names.RoleVirtualKubeletRemoteWide, string(tenant.Spec.ClusterID))
}

// bindRoles grants the cluster-wide permissions of the consumer. An existing binding with another role is immutable, and
// is replaced.
func (t *tenants) bindRoles(ctx context.Context, tenant *authv1beta1.Tenant) error {
	want := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{
			Name: bindingName(tenant),
			Labels: map[string]string{
				names.RemoteClusterID: string(tenant.Spec.ClusterID),
				names.AppManagedBy:    names.ManagedByLiqo,
			},
		},
		RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: names.RoleVirtualKubeletRemoteWide},
		Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.GroupKind, Name: string(tenant.Spec.ClusterID)}},
	}
	current := &rbacv1.ClusterRoleBinding{}
	err := t.client.Get(ctx, client.ObjectKeyFromObject(want), current)
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("reading the binding of the consumer: %w", err)
	}
	if err == nil && current.RoleRef != want.RoleRef {
		if err := kube.DeleteObject(ctx, t.client, current, "replacing the binding of the consumer"); err != nil {
			return err
		}
		return kube.Wait(0, "the binding of the consumer is being replaced")
	}
	if _, err := kube.Ensure(ctx, t.client, want); err != nil {
		return fmt.Errorf("binding the consumer: %w", err)
	}
	return nil
}

// controlPlaneBinding returns the RoleBinding of the consumer's control plane in its tenant namespace.
func controlPlaneBinding(tenant *authv1beta1.Tenant) *rbacv1.RoleBinding {
	return &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: tenant.Namespace,
			Name:      names.RoleBinding(names.RoleRemoteControlPlane),
			Labels: map[string]string{
				names.RemoteClusterID: string(tenant.Spec.ClusterID),
				names.AppManagedBy:    names.ManagedByLiqo,
			},
		},
		RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: names.RoleRemoteControlPlane},
		Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: string(tenant.Spec.ClusterID)}},
	}
}

// bindControlPlane creates the binding and corrects drift. A binding without a Tenant as owner belongs to the administrator, who may
// have created the binding without a handshake: it is left alone, and reported as taken.
func (t *tenants) bindControlPlane(ctx context.Context, tenant *authv1beta1.Tenant) (taken string, err error) {
	want, current := controlPlaneBinding(tenant), &rbacv1.RoleBinding{}
	err = t.client.Get(ctx, client.ObjectKeyFromObject(want), current)
	switch {
	case client.IgnoreNotFound(err) != nil:
		return "", fmt.Errorf("reading the binding of the control plane: %w", err)
	case err == nil && !ofSomeTenant(current):
		return fmt.Sprintf("RoleBinding %s was not created for the Tenant, so it is kept even if the Tenant is refused, drained or deleted. Delete it to have it created anew",
			client.ObjectKeyFromObject(current)), nil
	case err == nil && (current.RoleRef != want.RoleRef || !metav1.IsControlledBy(current, tenant)):
		if err := kube.DeleteObject(ctx, t.client, current, "replacing the binding of the control plane"); err != nil {
			return "", err
		}
		return "", kube.Wait(0, "the binding of the control plane is being replaced")
	}
	if _, err := kube.Ensure(ctx, t.client, want, kube.OwnedBy(tenant, t.client.Scheme())); err != nil {
		return "", fmt.Errorf("binding the control plane: %w", err)
	}
	return "", nil
}

// ofSomeTenant reports whether a Tenant controls the binding: this Tenant, or an earlier one.
func ofSomeTenant(b *rbacv1.RoleBinding) bool {
	owner := metav1.GetControllerOf(b)
	return owner != nil && owner.Kind == "Tenant" && strings.HasPrefix(owner.APIVersion, authv1beta1.GroupVersion.Group+"/")
}

// unbindControlPlane deletes the Tenant's binding. Without a handshake the binding is the administrator's unless Liqo
// applied it: earlier versions of Liqo created such bindings, too, and peerings depend on them.
func (t *tenants) unbindControlPlane(ctx context.Context, from client.Reader, tenant *authv1beta1.Tenant) error {
	current := &rbacv1.RoleBinding{}
	if err := from.Get(ctx, client.ObjectKeyFromObject(controlPlaneBinding(tenant)), current); err != nil {
		return client.IgnoreNotFound(err)
	}
	if _, applied := current.Annotations[names.AppliedHash]; !metav1.IsControlledBy(current, tenant) || !applied && !policy.ExchangesKeys(tenant) {
		return nil
	}
	return kube.DeleteObject(ctx, t.client, current, "taking the rights of the control plane back")
}

// unbindRoles revokes the permissions of the consumer; cluster-wide permissions only if no other Tenant grants them.
func (t *tenants) unbindRoles(ctx context.Context, from client.Reader, tenant *authv1beta1.Tenant) error {
	if err := t.unbindControlPlane(ctx, from, tenant); err != nil {
		return err
	}
	var all authv1beta1.TenantList
	if err := from.List(ctx, &all); err != nil {
		return fmt.Errorf("listing tenants: %w", err)
	}
	for i := range all.Items {
		other := &all.Items[i]
		if other.UID != tenant.UID && other.Spec.ClusterID == tenant.Spec.ClusterID && isEntitled(other) {
			return nil
		}
	}
	current := &rbacv1.ClusterRoleBinding{}
	if err := from.Get(ctx, types.NamespacedName{Name: bindingName(tenant)}, current); err != nil {
		if apierrors.IsNotFound(err) {
			return nil
		}
		return fmt.Errorf("reading the binding of the consumer: %w", err)
	}
	return kube.DeleteObject(ctx, t.client, current, "taking the rights of the consumer back")
}

func isEntitled(tenant *authv1beta1.Tenant) bool {
	return tenant.DeletionTimestamp.IsZero() && apimeta.IsStatusConditionTrue(tenant.Status.Conditions, authv1beta1.TenantReady)
}
