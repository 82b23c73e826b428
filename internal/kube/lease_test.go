// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package kube_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	coordinationv1 "k8s.io/api/coordination/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/testkit"
)

// A container that was killed is started again in the same pod. It need not wait until its own lease has run out.
func TestLeaseAdoption(t *testing.T) {
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

// A process may end at any moment: a Lease that it made has its owner from the first one on, with no right to write it again.
func TestLeaseOwner(t *testing.T) {
	c := testkit.Cluster(t)
	ns := testkit.Namespace(t, c, "lease", nil)
	user := testkit.UniqueID()
	testkit.Allow(t, c, ns, user, rbacv1.PolicyRule{APIGroups: []string{coordinationv1.GroupName}, Resources: []string{"leases"}, Verbs: []string{"create", "get"}})
	clients, err := kubernetes.NewForConfig(c.User(t, user))
	if err != nil {
		t.Fatal(err)
	}
	owner := metav1.OwnerReference{APIVersion: "v1", Kind: "Secret", Name: "gone", UID: "7"}
	lock := kube.NewLease(clients.CoordinationV1(), ns, "process", "pod-1", &owner)
	made := resourcelock.LeaderElectionRecord{HolderIdentity: "pod-1", LeaseDurationSeconds: 15, AcquireTime: metav1.Now(), RenewTime: metav1.Now()}
	testkit.Eventually(t, time.Minute, func() error { return lock.Create(t.Context(), made) }) // once its rights are in force
	var lease coordinationv1.Lease
	if err := c.Client.Get(t.Context(), client.ObjectKey{Namespace: ns, Name: "process"}, &lease); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]metav1.OwnerReference{owner}, lease.OwnerReferences); diff != "" || *lease.Spec.HolderIdentity != "pod-1" {
		t.Errorf("held by %q: %s", *lease.Spec.HolderIdentity, diff)
	}
}
