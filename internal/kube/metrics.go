// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"context"
	"errors"
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
)

// ExportMetrics exports the metrics of a collector while this process leads: several replicas would export them several times.
func ExportMetrics(mgr ctrl.Manager, c prometheus.Collector) error {
	export := func(ctx context.Context) error {
		if err := metrics.Registry.Register(c); err != nil {
			if _, taken := errors.AsType[prometheus.AlreadyRegisteredError](err); taken { // by another manager in this process
				return nil
			}
			return fmt.Errorf("exporting metrics: %w", err)
		}
		<-ctx.Done()
		metrics.Registry.Unregister(c)
		return nil
	}
	if err := mgr.Add(manager.RunnableFunc(export)); err != nil {
		return fmt.Errorf("adding metrics: %w", err)
	}
	return nil
}
