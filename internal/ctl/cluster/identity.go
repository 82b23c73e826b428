// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"errors"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/internal/ctl/ui"
	"liqo.io/liqo/internal/peer"
)

// ClusterIdentity returns the ID of a cluster.
func ClusterIdentity(ctx context.Context, kube client.Reader, liqoNamespace string) (string, error) {
	id, err := peer.LocalClusterID(ctx, kube, liqoNamespace)
	if errors.Is(err, peer.ErrNotFound) {
		return "", ui.Fail("Liqo is not installed in namespace %q: it has no cluster ID", liqoNamespace).
			Hint("Install Liqo with liqoctl install, or set its namespace by a flag listed in --help")
	}
	return string(id), err
}
