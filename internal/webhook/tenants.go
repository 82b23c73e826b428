// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package webhook

import (
	"context"
	"fmt"
	"net/http"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook"
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

// defaultDrainTime is how long a terminating server still answers: each connection in use has carried a request, and was closed
// by its response, by then.
const defaultDrainTime = time.Second

// drained is a webhook server with a graceful shutdown. API servers call webhooks by HTTP/1.1 with keep-alive
// (https://github.com/kubernetes/apiserver/blob/master/pkg/util/webhook/client.go), and an admission request sent while
// its connection is being closed fails: therefore connections are closed by a response.
type drained struct {
	webhook.Server
	drainFor time.Duration
	going    atomic.Bool
}

// Start serves until the context ends, and for drainFor afterwards.
func (d *drained) Start(ctx context.Context) error {
	serving, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	defer context.AfterFunc(ctx, func() {
		d.going.Store(true)
		time.AfterFunc(d.drainFor, stop)
	})()
	return d.Server.Start(serving)
}

// Register adds a webhook whose responses close the connection while the server terminates.
func (d *drained) Register(path string, hook http.Handler) {
	d.Server.Register(path, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if d.going.Load() {
			w.Header().Set("Connection", "close")
		}
		hook.ServeHTTP(w, r)
	}))
}
