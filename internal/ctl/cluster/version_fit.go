// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/internal/ctl/out"
	"liqo.io/liqo/internal/names"
	"liqo.io/liqo/internal/version"
)

// FitTogether fails if the versions of two installations are incompatible. An unreadable version is not compared.
func FitTogether(ctx context.Context, local, remote *Cluster) error {
	own, other, behind := local.installedVersion(ctx), remote.installedVersion(ctx), remote
	switch version.Between(own, other) {
	case version.NoGap:
		return nil
	case version.PeerTooNew:
		behind = local
	}
	return out.Fail("the local cluster has Liqo %s and the remote one %s, which do not work together", own, other).
		Hint("Upgrade the %s cluster by liqoctl install, one minor version after the other, until it is one behind at most", behind.Name).
		See("docs/troubleshooting.md#versions-do-not-work-together")
}

// installedVersion returns the version of Liqo in a cluster, from the chart's ConfigMap, which peering users may read; "" without one.
func (s *Cluster) installedVersion(ctx context.Context) string {
	var list corev1.ConfigMapList
	err := s.Kube.List(ctx, &list, client.InNamespace(s.LiqoNamespace), client.MatchingLabels{names.AppName: names.ClusterIDApp})
	if err != nil || len(list.Items) != 1 {
		return ""
	}
	return list.Items[0].Labels[names.AppVersion]
}
