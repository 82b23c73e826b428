// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"slices"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/internal/names"
	"liqo.io/liqo/internal/peer"
)

// IsRequest reports whether a ResourceSlice is a local request to the provider, by its labels or else by the namespaces of the
// peering.
func IsRequest(slice client.Object, provider string, namespaces ...string) bool {
	to, about := slice.GetLabels()[names.ReplicationDestination], slice.GetLabels()[names.RemoteClusterID]
	switch {
	case peer.IsReplica(slice):
		return false
	case to == "" && about == "":
		return slices.Contains(namespaces, slice.GetNamespace())
	}
	return to == provider || about == provider
}
