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

// CheckVirtualNode tells why the VirtualNode cannot become a node, nil if it can. Its name goes into labels and names a
// cluster-wide object.
func CheckVirtualNode(vn *offv1beta1.VirtualNode, others []offv1beta1.VirtualNode) error {
	if problems := validation.IsValidLabelValue(vn.Name); len(problems) > 0 {
		return fmt.Errorf("%q is no name for a virtual node: %s", vn.Name, strings.Join(problems, ", "))
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

// CheckVirtualNodePlace returns an error where a VirtualNode may not be in its namespace, nil where it may. It gets a process with the
// rights of a virtual kubelet there: an administrator has to have said so, by the label of a tenant namespace or by one of its own.
func CheckVirtualNodePlace(vn *offv1beta1.VirtualNode, namespace *corev1.Namespace) error {
	labels := namespace.Labels
	tenant := labels[names.TenantNamespace] == "true" && labels[names.RemoteClusterID] == string(vn.Spec.ClusterID)
	if tenant || labels[names.AllowVirtualNodes] == "true" {
		return nil
	}
	return fmt.Errorf("a VirtualNode of cluster %q belongs into the tenant namespace of that cluster: %q is another one, and has no label %s=true of an administrator",
		vn.Spec.ClusterID, namespace.Name, names.AllowVirtualNodes)
}

// CheckVirtualKubeletImage returns an error for an image that is neither one of ours, which are those of the options of the
// installation, nor one that the administrator lists.
func CheckVirtualKubeletImage(image string, ours, listed []string) error {
	if slices.Contains(ours, image) || slices.ContainsFunc(listed, func(pattern string) bool { return matches(pattern, image) }) {
		return nil
	}
	return fmt.Errorf("the image %q is none that virtual kubelets may run (virtualKubelet.images)", image)
}

// CheckVirtualNodeChange tells why a VirtualNode cannot change from old to vn, nil if it can. Another cluster is another
// node: pods of the one must never be taken for pods of the other.
func CheckVirtualNodeChange(old, vn *offv1beta1.VirtualNode) error {
	if old.Spec.ClusterID != "" && vn.Spec.ClusterID != old.Spec.ClusterID {
		return fmt.Errorf("spec.clusterID is immutable: it was %q and would become %q; make another VirtualNode", old.Spec.ClusterID, vn.Spec.ClusterID)
	}
	return nil
}

// KubeletInTenant is what the virtual kubelet of vn may do in its own namespace: of its Secrets it reads
// only the kubeconfig of its provider, beside which are those of the controllers.
func KubeletInTenant(vn *offv1beta1.VirtualNode) []rbacv1.PolicyRule {
	read, group := []string{"get", "list", "watch"}, []string{offv1beta1.GroupVersion.Group}
	out := []rbacv1.PolicyRule{
		{APIGroups: group, Resources: []string{"virtualnodes"}, ResourceNames: []string{vn.Name}, Verbs: read},
		// Whether the node of a pod is another one of its provider.
		{APIGroups: group, Resources: []string{"virtualnodes"}, Verbs: []string{"list"}},
		{APIGroups: group, Resources: []string{"namespacemaps"}, Verbs: read},
	}
	if ref := vn.Spec.KubeconfigSecretRef; ref != nil && ref.Name != "" {
		out = append(out, rbacv1.PolicyRule{APIGroups: []string{corev1.GroupName}, Resources: []string{"secrets"}, ResourceNames: []string{ref.Name}, Verbs: read})
	}
	return out
}
