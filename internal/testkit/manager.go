// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package testkit

import (
	"cmp"
	"context"
	"testing"

	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"

	"liqo.io/liqo/internal/kube"
)

// Manager runs a manager with what setup registers until the test ends, or until the returned function is called. cfg
// says as whom: c.Config has all rights, c.User those that the test gives.
func Manager(t testing.TB, cfg *rest.Config, o kube.ManagerOptions, setup func(ctrl.Manager) error) (stop func()) {
	t.Helper()
	o.HealthAddress, o.MetricsAddress, o.RepeatNames = "0", cmp.Or(o.MetricsAddress, "0"), true
	mgr, err := kube.NewManager(cfg, o)
	if err != nil {
		t.Fatalf("making a manager: %v", err)
	}
	if err := setup(mgr); err != nil {
		t.Fatalf("setting up a manager: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- mgr.Start(ctx) }()
	var stopped bool
	stop = func() {
		if stopped {
			return
		}
		stopped = true
		cancel()
		if err := <-done; err != nil {
			t.Errorf("running a manager: %v", err)
		}
	}
	t.Cleanup(stop)
	return stop
}
