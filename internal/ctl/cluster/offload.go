// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"

	offv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/ctl/out"
)

// OffloadingFailure returns the error with the clusters that denied the namespace, and the reasons.
func OffloadingFailure(nso *offv1beta1.NamespaceOffloading) error {
	failure := out.Fail("the offloading is in %q state", nso.Status.OffloadingPhase).
		See("docs/troubleshooting.md#a-namespace-is-somefailed-allfailed-or-stays-inprogress")
	for _, cluster := range unreadyClusters(nso) {
		failure.Hint("%s", cluster)
	}
	return failure
}

// unreadyClusters returns the clusters without a remote namespace for the offloading, each with the reason.
func unreadyClusters(nso *offv1beta1.NamespaceOffloading) []string {
	var lines []string
	for _, cluster := range SortedKeys(nso.Status.RemoteNamespacesConditions) {
		for _, condition := range nso.Status.RemoteNamespacesConditions[cluster] {
			if condition.Type == offv1beta1.NamespaceReady && condition.Status != corev1.ConditionTrue {
				lines = append(lines, fmt.Sprintf("Cluster %s: %s: %s", cluster, condition.Reason, condition.Message))
			}
		}
	}
	return lines
}
