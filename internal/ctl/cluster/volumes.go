// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/internal/ctl/ui"
	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/names"
	"liqo.io/liqo/internal/policy"
)

// KeepData fails if volumes of one provider and one namespace, or of all if empty, have their data in a provider. A user who may not list volumes is
// not stopped: the controllers do not leave such a provider either.
func KeepData(ctx context.Context, c client.Client, provider, namespace string) error {
	var volumes corev1.PersistentVolumeList
	if err := c.List(ctx, &volumes, client.HasLabels{names.StorageProvisioner, names.RemoteClusterID}); err != nil {
		if apierrors.IsForbidden(err) {
			return nil
		}
		return fmt.Errorf("listing the volumes: %w", err)
	}
	data := policy.DataIn(volumes.Items, provider, namespace)
	if len(data) == 0 {
		return nil
	}
	where := "another cluster"
	if provider != "" {
		where = fmt.Sprintf("cluster %q", provider)
	}
	return ui.Fail("the data of %s is in %s, and would be lost", kube.Some(data), where).
		Hint("Move it by liqoctl move volume, or delete the claims").See("docs/storage.md#before-a-provider-goes")
}
