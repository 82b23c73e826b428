// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"errors"
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	offv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/await"
)

var ErrOffloadingGone = errors.New("the NamespaceOffloading was deleted while waiting")

// AwaitOffloading waits until the controllers have processed this generation, with success or failure.
func AwaitOffloading(ctx context.Context, kube client.WithWatch, want *offv1beta1.NamespaceOffloading) (*offv1beta1.NamespaceOffloading, error) {
	have := &offv1beta1.NamespaceOffloading{ObjectMeta: metav1.ObjectMeta{Namespace: want.Namespace, Name: want.Name}}
	err := await.Object(ctx, kube, have, func(_ context.Context, there bool) error {
		if !there || have.UID != want.UID {
			return ErrOffloadingGone
		}
		phase := have.Status.OffloadingPhase
		if have.Status.ObservedGeneration < want.Generation {
			phase = "not looked at"
		}
		switch phase {
		case offv1beta1.ReadyOffloadingPhaseType, offv1beta1.NoClusterSelectedOffloadingPhaseType,
			offv1beta1.SomeFailedOffloadingPhaseType, offv1beta1.AllFailedOffloadingPhaseType:
			return nil
		}
		missing := fmt.Sprintf("the offloading is %q", phase)
		if have.Status.ObservedGeneration >= want.Generation {
			missing = strings.Join(append([]string{missing}, unreadyClusters(have)...), "; ")
		}
		return await.Pending(missing)
	})
	return have, err
}
