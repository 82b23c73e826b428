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

// allocationLock lets one grant through at a time, in the whole cluster: a process that has lost its lease without knowing may be
// at work for seconds beside its successor, and two objects cannot be written as one.
//
// Whoever grants first notes what and to whom on a Lease, on condition that nobody noted anything since it last looked. What
// the Lease says is the last grant, and maybe not in a status yet, for its process may have died or be late: so the next one
// that comes through writes it there, before it reads what everybody has.
type allocationLock struct {
	client client.Client // without cache
	key    client.ObjectKey
	// lease is as this process left it, nil when it does not know who came through since.
	lease *coordinationv1.Lease
}

// retryDelay is how long to leave the turnstile to another process.
const retryDelay = 200 * time.Millisecond

// grantRecord is one grant.
type grantRecord struct {
	Kind      string    `json:"kind"` // of the object that gets it, which is named by the next three
	Namespace string    `json:"namespace"`
	Name      string    `json:"name"`
	UID       types.UID `json:"uid"`
	CIDR      string    `json:"cidr"`
	IP        string    `json:"ip,omitempty"`
}

// acquireLease tells whether this process knows of nobody who came through after it. Where it may not have been,
// last is what was granted last, if anything: it must be in a status before anything is decided.
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
			return nil, false, kube.Wait(retryDelay, "another process grants addresses")
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
		return nil, false, nil // nobody of us wrote that, so it is no grant
	}
	return last, false, nil
}

// recordGrant notes a grant. Without error nobody else has granted anything since enter.
func (t *allocationLock) recordGrant(ctx context.Context, n grantRecord) error {
	text, err := json.Marshal(n)
	if err != nil {
		return fmt.Errorf("encoding a grant: %w", err)
	}
	lease := t.lease.DeepCopy()
	metav1.SetMetaDataAnnotation(&lease.ObjectMeta, names.LastGrant, string(text))
	err = t.client.Update(ctx, lease)
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
		return kube.Wait(retryDelay, "another process grants addresses")
	}
	if err != nil {
		return fmt.Errorf("noting a grant on the Lease %s: %w", t.key, err)
	}
	t.lease = lease
	return nil
}

// releaseLease has the next enter look who came through.
func (t *allocationLock) releaseLease() { t.lease = nil }
