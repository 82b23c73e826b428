// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package ctl

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/watch"

	offv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
)

// followOffloading reads events until the end of the offloading. Both results are nil when the watch ended first.
func followOffloading(ctx context.Context, events <-chan watch.Event, generation int64, last *offv1beta1.OffloadingPhaseType) (*offv1beta1.NamespaceOffloading, error) {
	for {
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("the offloading is %q: %w", *last, ctx.Err())
		case e, open := <-events:
			if !open {
				return nil, nil
			}
			switch e.Type {
			case watch.Error:
				return nil, apierrors.FromObject(e.Object)
			case watch.Deleted:
				return nil, errOffloadingGone
			}
			nso, ok := e.Object.(*offv1beta1.NamespaceOffloading)
			if !ok || nso.Status.ObservedGeneration < generation {
				continue
			}
			*last = nso.Status.OffloadingPhase
			switch *last {
			case offv1beta1.ReadyOffloadingPhaseType, offv1beta1.NoClusterSelectedOffloadingPhaseType,
				offv1beta1.SomeFailedOffloadingPhaseType, offv1beta1.AllFailedOffloadingPhaseType:
				return nso, nil
			}
		}
	}
}
