// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"errors"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	offv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/ctl/ui"
	"liqo.io/liqo/internal/kube"
)

// OffloadingFailure returns the error with the clusters that denied the namespace, and the reasons.
func OffloadingFailure(nso *offv1beta1.NamespaceOffloading) error {
	failure := ui.Fail("the offloading is in %q state", nso.Status.OffloadingPhase).
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

// ErrOffloadingGone reports that the NamespaceOffloading was deleted while waiting.
var ErrOffloadingGone = errors.New("the NamespaceOffloading was deleted while waiting")

// AwaitOffloading waits until the controllers have processed this generation, with success or failure.
func AwaitOffloading(ctx context.Context, cl client.WithWatch, want *offv1beta1.NamespaceOffloading) (*offv1beta1.NamespaceOffloading, error) {
	current := &offv1beta1.NamespaceOffloading{ObjectMeta: metav1.ObjectMeta{Namespace: want.Namespace, Name: want.Name}}
	err := kube.WaitForObject(ctx, cl, current, func(_ context.Context, exists bool) error {
		if !exists || current.UID != want.UID {
			return ErrOffloadingGone
		}
		phase := current.Status.OffloadingPhase
		if current.Status.ObservedGeneration < want.Generation {
			phase = "not looked at"
		}
		switch phase {
		case offv1beta1.ReadyOffloadingPhaseType, offv1beta1.NoClusterSelectedOffloadingPhaseType,
			offv1beta1.SomeFailedOffloadingPhaseType, offv1beta1.AllFailedOffloadingPhaseType:
			return nil
		}
		missing := fmt.Sprintf("the offloading is %q", phase)
		if current.Status.ObservedGeneration >= want.Generation {
			missing = strings.Join(append([]string{missing}, unreadyClusters(current)...), "; ")
		}
		return kube.Pending(missing)
	})
	return current, err
}
