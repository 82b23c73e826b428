// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package peer

import (
	"context"
	"fmt"
	"slices"

	"sigs.k8s.io/controller-runtime/pkg/client"

	liqov1beta1 "liqo.io/liqo/api/core/v1beta1"
)

// VersionRefused returns the condition of a peer whose version is incompatible with this cluster's, nil if compatible.
// Existing offloading and connections continue, and new ones are not started.
func VersionRefused(fc *liqov1beta1.ForeignCluster) *liqov1beta1.Condition {
	all := fc.Status.Modules.Authentication.Conditions
	i := slices.IndexFunc(all, func(c liqov1beta1.Condition) bool {
		return c.Type == liqov1beta1.AuthVersionStatus && c.Status == liqov1beta1.ConditionError
	})
	if i < 0 {
		return nil
	}
	return &all[i]
}

// FindVersionRefused reads the ForeignCluster of a cluster and returns its condition as VersionRefused does.
func FindVersionRefused(ctx context.Context, c client.Reader, id liqov1beta1.ClusterID) (*liqov1beta1.Condition, error) {
	var fc liqov1beta1.ForeignCluster
	if err := c.Get(ctx, client.ObjectKey{Name: string(id)}, &fc); err != nil {
		if client.IgnoreNotFound(err) == nil {
			return nil, nil
		}
		return nil, fmt.Errorf("reading ForeignCluster %s: %w", id, err)
	}
	return VersionRefused(&fc), nil
}
