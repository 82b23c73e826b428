// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package peer

import (
	"context"
	"fmt"

	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/internal/policy"
)

// Bindings returns all RoleBindings and ClusterRoleBindings.
func Bindings(ctx context.Context, c client.Reader) ([]policy.Binding, error) {
	var wide rbacv1.ClusterRoleBindingList
	if err := c.List(ctx, &wide); err != nil {
		return nil, fmt.Errorf("listing cluster role bindings: %w", err)
	}
	var narrow rbacv1.RoleBindingList
	if err := c.List(ctx, &narrow); err != nil {
		return nil, fmt.Errorf("listing role bindings: %w", err)
	}
	all := make([]policy.Binding, 0, len(wide.Items)+len(narrow.Items))
	for i := range wide.Items {
		all = append(all, policy.Binding{Kind: "ClusterRoleBinding", Object: &wide.Items[i], Subjects: wide.Items[i].Subjects})
	}
	for i := range narrow.Items {
		all = append(all, policy.Binding{Kind: "RoleBinding", Object: &narrow.Items[i], Subjects: narrow.Items[i].Subjects})
	}
	return all, nil
}

// Subjects returns the subjects of a RoleBinding or a ClusterRoleBinding.
func Subjects(binding client.Object) []rbacv1.Subject {
	switch b := binding.(type) {
	case *rbacv1.ClusterRoleBinding:
		return b.Subjects
	case *rbacv1.RoleBinding:
		return b.Subjects
	}
	return nil
}
