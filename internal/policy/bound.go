// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
)

// Prefixes of the users and groups that Kubernetes assigns to ServiceAccounts.
const (
	serviceAccountUser   = "system:serviceaccount:"
	serviceAccountsGroup = "system:serviceaccounts:"
)

// BoundNamespaces returns the namespaces whose ServiceAccounts get rights by a binding with these subjects: by the account, by
// its user name, or by the group of all accounts of the namespace. The namespace of the binding itself is left out: the binding
// gives no rights outside of that namespace, and is deleted with it.
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
