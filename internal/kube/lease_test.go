// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package kube_test

import (
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"

	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/testkit"
)

// A container that was killed is started again in the same pod. It need not wait until its own lease has run out.
func TestAProcessGoesOnWithTheLeaseOfItsPod(t *testing.T) {
	c := testkit.Cluster(t)
	ns := testkit.Namespace(t, c, "lease", nil)
	held := &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "process"},
		Spec: coordinationv1.LeaseSpec{
			HolderIdentity: new("pod-1"), LeaseDurationSeconds: new(int32(3600)),
			AcquireTime: new(metav1.NowMicro()), RenewTime: new(metav1.NowMicro()),
		},
	}
	if err := c.Client.Create(t.Context(), held); err != nil {
		t.Fatal(err)
	}
	elected := make(<-chan struct{})
	testkit.Manager(t, c.Config, kube.ManagerOptions{
		Name: "process", LeaderElection: true, LeaderElectionNamespace: ns, Identity: "pod-1",
		LeaseDuration: time.Hour, RenewDeadline: 10 * time.Second, RetryPeriod: time.Second,
	}, func(mgr ctrl.Manager) error {
		elected = mgr.Elected()
		return nil
	})
	select {
	case <-elected:
	case <-time.After(time.Minute):
		t.Fatal("the process waits for itself")
	}
}
