// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"fmt"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	liqov1beta1 "liqo.io/liqo/api/core/v1beta1"
	"liqo.io/liqo/internal/names"
)

// Binding is a RoleBinding or a ClusterRoleBinding.
type Binding struct {
	Kind     string
	Object   metav1.Object
	Subjects []rbacv1.Subject
}

// Check returns why the binding conflicts with a user or group name chosen by a consumer, or nil: the consumer, whose
// tenant namespace is given, would inherit rights granted to another subject. A binding newer than since is ignored,
// because its author knew of the consumer's name; since is nil if the name is not in use yet.
func (b Binding) Check(name string, consumer liqov1beta1.ClusterID, namespace string, since *metav1.Time) error {
	switch at := b.Object.GetCreationTimestamp(); {
	case !NamesUserOrGroup(b.Subjects, name):
		return nil
	case b.Object.GetLabels()[names.RemoteClusterID] == string(consumer), b.Object.GetNamespace() == namespace:
		return nil
	case since.Before(&at):
		return nil
	}
	return fmt.Errorf("%s %s already grants permissions to a user or group %q, which the consumer would inherit: label it %s=%s to permit that",
		b.Kind, strings.TrimPrefix(b.Object.GetNamespace()+"/"+b.Object.GetName(), "/"), name, names.RemoteClusterID, consumer)
}

// NamesUserOrGroup reports whether one of the subjects is a user or group of this name.
func NamesUserOrGroup(subjects []rbacv1.Subject, name string) bool {
	for _, s := range subjects {
		if (s.Kind == rbacv1.UserKind || s.Kind == rbacv1.GroupKind) && s.Name == name {
			return true
		}
	}
	return false
}

// Prefixes of the users and groups that Kubernetes assigns to ServiceAccounts.
const (
	serviceAccountUser   = "system:serviceaccount:"
	serviceAccountsGroup = "system:serviceaccounts:"
)

// BoundNamespaces returns the namespaces whose ServiceAccounts get rights by a binding with these subjects: by the account, by
// the account's user name, or by the group of all accounts of the namespace. The namespace of the binding itself is left out: the
// binding gives no rights outside of this namespace, and is deleted with the namespace.
func BoundNamespaces(subjects []rbacv1.Subject, inNamespace string) []string {
	var out []string
	for _, s := range subjects {
		namespace := ""
		switch s.Kind {
		case rbacv1.ServiceAccountKind:
			namespace = s.Namespace
		case rbacv1.UserKind:
			if account, ok := strings.CutPrefix(s.Name, serviceAccountUser); ok {
				namespace, _, _ = strings.Cut(account, ":")
			}
		case rbacv1.GroupKind:
			namespace, _ = strings.CutPrefix(s.Name, serviceAccountsGroup)
			if namespace == s.Name {
				namespace = ""
			}
		}
		if namespace != "" && namespace != inNamespace {
			out = append(out, namespace)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}
