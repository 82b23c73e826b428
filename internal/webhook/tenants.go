// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package webhook

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	authv1beta1 "liqo.io/liqo/api/authentication/v1beta1"
	"liqo.io/liqo/internal/policy"
)

// tenantDefaults sets the labels of Tenants.
type tenantDefaults struct{}

func (tenantDefaults) mutateObject(_ context.Context, _ *admission.Request, _, tenant *authv1beta1.Tenant) error {
	policy.DefaultTenant(tenant)
	return nil
}

// tenantValidator denies Tenants in the tenant namespace of another cluster.
type tenantValidator struct{ cachedReader }

func (t *tenantValidator) validateObject(ctx context.Context, req *admission.Request, old, tenant *authv1beta1.Tenant) ([]string, error) {
	namespace := &corev1.Namespace{}
	if err := t.getObject(ctx, client.ObjectKey{Name: req.Namespace}, namespace); err != nil {
		return nil, fmt.Errorf("reading the namespace: %w", err)
	}
	if err := policy.CheckTenant(tenant, namespace.Labels); err != nil {
		return nil, newRefusal(err)
	}
	if old != nil {
		return nil, nil
	}
	others := &authv1beta1.TenantList{}
	if err := t.live.List(ctx, others); err != nil {
		return nil, fmt.Errorf("listing the Tenants: %w", err)
	}
	tenant.Namespace = req.Namespace
	return nil, newRefusal(policy.CheckTenantUnique(tenant, others.Items))
}
