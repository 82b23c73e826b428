// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"context"
	"fmt"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// EnsureRoleBinding applies a RoleBinding as Ensure does. The roleRef is immutable: a binding with another roleRef is
// passed to drop, which deletes the binding, and is created again by the next attempt.
func EnsureRoleBinding(ctx context.Context, c client.Client, want *rbacv1.RoleBinding, drop func(context.Context, *rbacv1.RoleBinding) error) error {
	_, applied := Ensure(ctx, c, want)
	if !apierrors.IsInvalid(applied) {
		return applied
	}
	have := &rbacv1.RoleBinding{}
	if err := c.Get(ctx, client.ObjectKeyFromObject(want), have); err != nil {
		return fmt.Errorf("reading RoleBinding %s/%s: %w", want.Namespace, want.Name, err)
	}
	if have.RoleRef == want.RoleRef {
		return applied
	}
	if err := drop(ctx, have); err != nil {
		return err
	}
	return Wait(conflictDelay, "a binding with another role is being replaced")
}
