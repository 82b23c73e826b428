// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package virtualkubelet

import (
	"context"
	"fmt"
	"time"

	"github.com/go-logr/logr"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// nodeLease is the heartbeat of the Node. In a network partition, while the provider does not answer, it stops, and the control
// plane then marks the Node, even if this process dies as well.
type nodeLease struct {
	clients  kubernetes.Interface
	node     string
	duration time.Duration
	health   *providerHealth
	now      func() time.Time
	log      logr.Logger
	// due triggers a renewal at once: the Node was created, or the provider answers.
	due <-chan struct{}
}

// renewals is the number of renewals within the duration of a lease, as for a kubelet.
const renewals = 4

func (l *nodeLease) runRenewal(ctx context.Context) error {
	for {
		if l.health.isHealthy() {
			if err := l.renewOnce(ctx); err != nil && ctx.Err() == nil {
				l.log.Error(err, "renewing the lease of the node")
			}
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(l.duration / renewals):
		case <-l.due:
		}
	}
}

// renewOnce writes the lease, which the Node owns.
func (l *nodeLease) renewOnce(ctx context.Context) error {
	leases := l.clients.CoordinationV1().Leases(corev1.NamespaceNodeLease)
	lease, err := leases.Get(ctx, l.node, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		node, err := l.clients.CoreV1().Nodes().Get(ctx, l.node, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return nil // due signals a new Node
		}
		if err != nil {
			return fmt.Errorf("reading the node: %w", err)
		}
		lease = &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{
			Name: l.node, Namespace: corev1.NamespaceNodeLease,
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: node.Name, UID: node.UID}},
		}}
		l.setSpec(lease)
		_, err = leases.Create(ctx, lease, metav1.CreateOptions{})
		return err
	case err != nil:
		return fmt.Errorf("reading the lease: %w", err)
	}
	l.setSpec(lease)
	_, err = leases.Update(ctx, lease, metav1.UpdateOptions{})
	return err
}

func (l *nodeLease) setSpec(lease *coordinationv1.Lease) {
	lease.Spec.HolderIdentity = new(l.node)
	lease.Spec.LeaseDurationSeconds = new(int32(l.duration.Seconds()))
	lease.Spec.RenewTime = new(metav1.NewMicroTime(l.now()))
}
