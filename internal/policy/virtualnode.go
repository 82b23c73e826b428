// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	offv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/names"
)

// CheckVirtualNode returns why the VirtualNode cannot become a node, or nil. Its name is used in labels and for a
// cluster-wide object.
func CheckVirtualNode(vn *offv1beta1.VirtualNode, others []offv1beta1.VirtualNode) error {
	if problems := validation.IsValidLabelValue(vn.Name); len(problems) > 0 {
		return fmt.Errorf("invalid name of a virtual node %q: %s", vn.Name, strings.Join(problems, ", "))
	}
	if vn.Spec.ClusterID == "" {
		return errors.New("spec.clusterID is required")
	}
	for i := range others {
		if others[i].Name == vn.Name && others[i].Namespace != vn.Namespace {
			return fmt.Errorf("a VirtualNode %q exists already, in namespace %q", vn.Name, others[i].Namespace)
		}
	}
	return nil
}

// CheckVirtualNodePlace returns an error if a VirtualNode is not permitted in its namespace. A virtual kubelet with its rights
// will run in the namespace: an administrator must have agreed, by the label of a tenant namespace or by a separate label.
func CheckVirtualNodePlace(vn *offv1beta1.VirtualNode, namespace *corev1.Namespace) error {
	labels := namespace.Labels
	tenant := labels[names.TenantNamespace] == "true" && labels[names.RemoteClusterID] == string(vn.Spec.ClusterID)
	if tenant || labels[names.AllowVirtualNodes] == "true" {
		return nil
	}
	return fmt.Errorf("a VirtualNode of cluster %q must be in the tenant namespace of that cluster, or in a namespace that an administrator labelled: %q lacks the label %s=true",
		vn.Spec.ClusterID, namespace.Name, names.AllowVirtualNodes)
}

// CheckVirtualKubeletImage returns an error for an image that is neither in ownImages, the images of the installation, nor listed
// by the administrator.
func CheckVirtualKubeletImage(image string, ownImages, listed []string) error {
	if slices.Contains(ownImages, image) || slices.ContainsFunc(listed, func(pattern string) bool { return matches(pattern, image) }) {
		return nil
	}
	return fmt.Errorf("the image %q is none that virtual kubelets may run (virtualKubelet.images)", image)
}

// CheckVirtualNodeChange returns why a VirtualNode cannot change from old to vn, or nil. Another cluster means another
// node: pods of the one must never be taken for pods of the other.
func CheckVirtualNodeChange(old, vn *offv1beta1.VirtualNode) error {
	if old.Spec.ClusterID != "" && vn.Spec.ClusterID != old.Spec.ClusterID {
		return fmt.Errorf("spec.clusterID is immutable: it was %q and would become %q; make another VirtualNode", old.Spec.ClusterID, vn.Spec.ClusterID)
	}
	return nil
}

// KubeletMapRules returns the rules for a virtual kubelet in the namespace of its NamespaceMap.
func KubeletMapRules() []rbacv1.PolicyRule {
	return []rbacv1.PolicyRule{{APIGroups: []string{offv1beta1.GroupVersion.Group}, Resources: []string{"namespacemaps"}, Verbs: []string{"get", "list", "watch"}}}
}

// KubeletInTenant returns the rules for the virtual kubelet of vn in the same namespace. Of the Secrets, only the provider's
// kubeconfig is readable, because the namespace has the Secrets of the controllers, too.
func KubeletInTenant(vn *offv1beta1.VirtualNode) []rbacv1.PolicyRule {
	read, group := []string{"get", "list", "watch"}, []string{offv1beta1.GroupVersion.Group}
	out := []rbacv1.PolicyRule{
		{APIGroups: group, Resources: []string{"virtualnodes"}, ResourceNames: []string{vn.Name}, Verbs: read},
		// To check whether the node of a pod is another node of its provider.
		{APIGroups: group, Resources: []string{"virtualnodes"}, Verbs: []string{"list"}},
	}
	out = append(out, KubeletMapRules()...)
	if ref := vn.Spec.KubeconfigSecretRef; ref != nil && ref.Name != "" {
		out = append(out, rbacv1.PolicyRule{APIGroups: []string{corev1.GroupName}, Resources: []string{"secrets"}, ResourceNames: []string{ref.Name}, Verbs: read})
	}
	return out
}
