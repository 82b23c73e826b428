// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package uninstall

import (
	"context"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/internal/await"
)

// patient retries requests after transient errors of the API server, so that a removal completes. All of its requests are idempotent.
type patient struct{ client.Client }

func (p patient) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	return await.Through(ctx, func() error { return p.Client.List(ctx, list, opts...) })
}

func (p patient) Delete(ctx context.Context, obj client.Object, opts ...client.DeleteOption) error {
	return await.Through(ctx, func() error { return p.Client.Delete(ctx, obj, opts...) })
}

func (p patient) Patch(ctx context.Context, obj client.Object, patch client.Patch, opts ...client.PatchOption) error {
	return await.Through(ctx, func() error { return p.Client.Patch(ctx, obj, patch, opts...) })
}
