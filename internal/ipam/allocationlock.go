// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package ipam

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/names"
)

// allocationLock is an allocation lock for the whole cluster: a process unaware of the loss of its leader-election lease may work for seconds beside
// its successor, and two objects cannot be written atomically.
//
// Before a write, a process records the allocation on a Lease, on condition that the Lease is unchanged since the last read of the process. The
// recorded allocation may be missing from the status, because the process died or is late: the next process writes the allocation to the status
// before reading all allocations.
type allocationLock struct {
	client client.Client // uncached
	key    client.ObjectKey
	// lease is the last Lease written by this process, nil if another process may have changed the Lease.
	lease *coordinationv1.Lease
}

// retryDelay is the delay after another process has taken the lock.
const retryDelay = 200 * time.Millisecond

// grantRecord is one recorded allocation.
type grantRecord struct {
	Kind      string    `json:"kind"` // kind of the object identified by the next three
	Namespace string    `json:"namespace"`
	Name      string    `json:"name"`
	UID       types.UID `json:"uid"`
	CIDR      string    `json:"cidr"`
	IP        string    `json:"ip,omitempty"`
}

// acquireLease reports whether this process made the last allocation (sole). If possibly not, last is the recorded allocation, nil if none: it
// must be written to a status before any decision.
func (t *allocationLock) acquireLease(ctx context.Context) (last *grantRecord, sole bool, err error) {
	if t.lease != nil {
		return nil, true, nil
	}
	lease := &coordinationv1.Lease{}
	err = t.client.Get(ctx, t.key, lease)
	if apierrors.IsNotFound(err) {
		lease = &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: t.key.Namespace, Name: t.key.Name}}
		err = t.client.Create(ctx, lease)
		if apierrors.IsAlreadyExists(err) {
			return nil, false, kube.Wait(retryDelay, "another process is allocating")
		}
	}
	if err != nil {
		return nil, false, fmt.Errorf("reading the Lease %s: %w", t.key, err)
	}
	t.lease = lease
	text, noted := lease.Annotations[names.LastGrant]
	if !noted {
		return nil, false, nil
	}
	last = &grantRecord{}
	if err := json.Unmarshal([]byte(text), last); err != nil {
		return nil, false, nil // not written by this software, hence no allocation
	}
	return last, false, nil
}

// recordGrant records an allocation. If the write succeeds, no other process has allocated since acquireLease.
func (t *allocationLock) recordGrant(ctx context.Context, n grantRecord) error {
	text, err := json.Marshal(n)
	if err != nil {
		return fmt.Errorf("encoding an allocation: %w", err)
	}
	lease := t.lease.DeepCopy()
	metav1.SetMetaDataAnnotation(&lease.ObjectMeta, names.LastGrant, string(text))
	err = t.client.Update(ctx, lease)
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
		return kube.Wait(retryDelay, "another process is allocating")
	}
	if err != nil {
		return fmt.Errorf("recording an allocation on Lease %s: %w", t.key, err)
	}
	t.lease = lease
	return nil
}

// releaseLease makes the next acquireLease read the Lease.
func (t *allocationLock) releaseLease() { t.lease = nil }
