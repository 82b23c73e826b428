// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package ctl

import (
	"context"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	offv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/await"
)

var errOffloadingGone = errors.New("somebody deleted the NamespaceOffloading meanwhile")

// awaitOffloading waits until the controllers have looked at this generation and come to an end.
func awaitOffloading(ctx context.Context, kube client.WithWatch, want *offv1beta1.NamespaceOffloading) (*offv1beta1.NamespaceOffloading, error) {
	key, have := client.ObjectKeyFromObject(want), &offv1beta1.NamespaceOffloading{}
	err := await.Until(ctx, kube, func(ctx context.Context) error {
		have = &offv1beta1.NamespaceOffloading{} // what is read into another stays there where this has nothing
		switch err := kube.Get(ctx, key, have); {
		case apierrors.IsNotFound(err), err == nil && have.UID != want.UID:
			return errOffloadingGone
		case err != nil:
			return err
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
		return await.Pending(fmt.Sprintf("the offloading is %q", phase))
	}, await.One(&offv1beta1.NamespaceOffloadingList{}, key))
	return have, err
}
