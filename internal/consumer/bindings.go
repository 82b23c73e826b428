// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package consumer

import (
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	offv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/names"
	"liqo.io/liqo/internal/policy"
)

// Objects have no owner references: foreground deletion of a VirtualNode would delete the kubelet and the kubelet's permissions
// before its pods are drained.

func labelsOf(vn *offv1beta1.VirtualNode) map[string]string {
	return map[string]string{
		names.AppManagedBy:    managedBy,
		names.RemoteClusterID: string(vn.Spec.ClusterID),
		names.VirtualNode:     vn.Name,
	}
}

func serviceAccount(vn *offv1beta1.VirtualNode) *corev1.ServiceAccount {
	return &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: vn.Namespace, Name: vn.Name, Labels: labelsOf(vn)}}
}

// isAccountOf reports whether the account was created for the VirtualNode. A foreign account may have foreign pods, which
// must not get a kubelet's permissions.
func isAccountOf(vn *offv1beta1.VirtualNode, account *corev1.ServiceAccount) bool {
	return account.Labels[names.AppManagedBy] == managedBy && account.Labels[names.VirtualNode] == vn.Name
}

func subjectsOf(vn *offv1beta1.VirtualNode) []rbacv1.Subject {
	return []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: vn.Namespace, Name: vn.Name}}
}

func clusterRoleBinding(vn *offv1beta1.VirtualNode) *rbacv1.ClusterRoleBinding {
	return &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: names.VirtualNodeBinding(vn.Name), Labels: labelsOf(vn)},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: names.RoleVirtualKubeletLocal},
		Subjects:   subjectsOf(vn),
	}
}

// tenantRole returns the permissions of the virtual kubelet in its own namespace.
func tenantRole(vn *offv1beta1.VirtualNode) *rbacv1.Role {
	return &rbacv1.Role{
		ObjectMeta: metav1.ObjectMeta{Namespace: vn.Namespace, Name: names.VirtualNodeBinding(vn.Name), Labels: labelsOf(vn)},
		Rules:      policy.KubeletInTenant(vn),
	}
}

func tenantBinding(vn *offv1beta1.VirtualNode) *rbacv1.RoleBinding {
	out := roleBinding(vn, vn.Namespace, tenantRole(vn).Name)
	out.RoleRef.Kind = "Role"
	return out
}

// mapRole returns the permissions of the virtual kubelet in the namespace of the NamespaceMap, if the VirtualNode is in another namespace. The
// name differs from the roles of VirtualNodes in the namespace of the map.
func mapRole(vn *offv1beta1.VirtualNode, namespace string) *rbacv1.Role {
	return &rbacv1.Role{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: names.VirtualNodeBinding(vn.Namespace + "." + vn.Name), Labels: labelsOf(vn)},
		Rules:      policy.KubeletMapRules(),
	}
}

func mapBinding(vn *offv1beta1.VirtualNode, namespace string) *rbacv1.RoleBinding {
	out := roleBinding(vn, namespace, mapRole(vn, namespace).Name)
	out.Name, out.RoleRef.Kind = out.RoleRef.Name, "Role"
	return out
}

func roleBinding(vn *offv1beta1.VirtualNode, namespace, role string) *rbacv1.RoleBinding {
	return &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: names.VirtualNodeBinding(vn.Name), Labels: labelsOf(vn)},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
		Subjects:   subjectsOf(vn),
	}
}
