// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"liqo.io/liqo/internal/names"
)

// tenantNamespaces is the prefix of tenant namespaces.
const tenantNamespaces = "liqo-tenant-"

// Reserved are the namespaces never given to a consumer as remote namespaces, besides those of Kubernetes.
type Reserved struct {
	// Liqo is the namespace of the installation.
	Liqo string
	// Tenants are the tenant namespaces of peerings, whose names are arbitrary.
	Tenants []string
	// Names are further names. A pattern may begin or end with *, a wildcard for any characters.
	Names []string
}

// CheckTwinNamespace returns why a consumer may not have a remote namespace of this name, or nil.
func CheckTwinNamespace(name string, r Reserved) error {
	if problems := validation.IsDNS1123Label(name); len(problems) > 0 {
		return fmt.Errorf("invalid namespace name %q: %s", name, strings.Join(problems, ", "))
	}
	switch {
	case name == metav1.NamespaceDefault, strings.HasPrefix(name, "kube-"):
		return fmt.Errorf("the namespace %q belongs to Kubernetes", name)
	case name == r.Liqo, name == names.StorageNamespace, strings.HasPrefix(name, tenantNamespaces):
		return fmt.Errorf("the namespace %q belongs to Liqo", name)
	case slices.Contains(r.Tenants, name):
		return fmt.Errorf("the namespace %q belongs to a peering", name)
	case slices.ContainsFunc(r.Names, func(pattern string) bool { return matches(pattern, name) }):
		return fmt.Errorf("the namespace %q is reserved by the provider", name)
	}
	return nil
}

// matches reports whether s matches a pattern that may begin or end with *, or both.
func matches(pattern, s string) bool {
	suffix, anyStart := strings.CutPrefix(pattern, "*")
	middle, anyEnd := strings.CutSuffix(suffix, "*")
	switch {
	case anyStart && anyEnd:
		return strings.Contains(s, middle)
	case anyStart:
		return strings.HasSuffix(s, suffix)
	case anyEnd:
		return strings.HasPrefix(s, middle)
	}
	return pattern == s
}
