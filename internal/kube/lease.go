// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"context"
	"encoding/json"
	"fmt"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	coordinationclient "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

// NewLease returns the leader election lock of a process with this identity. The Lease is garbage-collected once the
// owners of all holders are gone; without an owner the Lease stays.
func NewLease(clients coordinationclient.LeasesGetter, namespace, name, identity string, owner *metav1.OwnerReference) resourcelock.Interface {
	lock := &resourcelock.LeaseLock{
		LeaseMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Client: clients,
		LockConfig: resourcelock.ResourceLockConfig{Identity: identity},
	}
	if owner == nil {
		return lock
	}
	return &ownedLease{LeaseLock: lock, owner: *owner}
}

// ownedLease adds the owner reference of this process to a Lease created by another process, once this process holds the
// Lease. Leader election calls ownedLease from one goroutine.
type ownedLease struct {
	*resourcelock.LeaseLock
	owner metav1.OwnerReference
	named bool
}

// Create creates the Lease together with the owner reference: with a second request, a process that ends between the two
// would leave an orphaned Lease.
func (l *ownedLease) Create(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	lease := &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Namespace: l.LeaseMeta.Namespace, Name: l.LeaseMeta.Name, OwnerReferences: []metav1.OwnerReference{l.owner}},
		Spec:       resourcelock.LeaderElectionRecordToLeaseSpec(&record),
	}
	if _, err := l.Client.Leases(lease.Namespace).Create(ctx, lease, metav1.CreateOptions{}); err != nil {
		return err
	}
	l.named = true
	_, _, err := l.Get(ctx) // the next renewal uses this resourceVersion
	return err
}

func (l *ownedLease) Update(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	return l.isHeld(ctx, l.LeaseLock.Update(ctx, record))
}

// isHeld adds the owner reference after a successful write, or retries with the next renewal: the holder of the lease
// leads in either case.
func (l *ownedLease) isHeld(ctx context.Context, err error) error {
	if err == nil && !l.named {
		l.named = l.setHolder(ctx) == nil
	}
	return err
}

func (l *ownedLease) setHolder(ctx context.Context) error {
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"ownerReferences": []metav1.OwnerReference{l.owner}}})
	if err != nil {
		return fmt.Errorf("encoding the owner of a lease: %w", err)
	}
	leases := l.Client.Leases(l.LeaseMeta.Namespace)
	// A strategic merge patch keeps the owner references of other processes.
	if _, err := leases.Patch(ctx, l.LeaseMeta.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{}); err != nil {
		return fmt.Errorf("naming the owner of a lease: %w", err)
	}
	_, _, err = l.Get(ctx) // the next renewal uses this resourceVersion
	return err
}
