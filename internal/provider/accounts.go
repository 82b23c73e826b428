// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package provider

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	liqov1beta1 "liqo.io/liqo/api/core/v1beta1"
	offv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/peer"
	"liqo.io/liqo/internal/policy"
)

// creatorIndex indexes Quotas by the label CreatorUser that ShadowPods of their user have.
const creatorIndex = "creator"

func indexQuotas(mgr ctrl.Manager) error {
	err := mgr.GetFieldIndexer().IndexField(context.Background(), &offv1beta1.Quota{}, creatorIndex, func(obj client.Object) []string {
		return []string{policy.CreatorUser(obj.(*offv1beta1.Quota).Spec.User)}
	})
	if err != nil {
		return fmt.Errorf("indexing quotas: %w", err)
	}
	return nil
}

// quotaOf returns the Quota of an account, nil if the account has none. Only Quotas in the consumer's own tenant namespace
// count.
func (s *shadowPods) quotaOf(ctx context.Context, a account) (*offv1beta1.Quota, error) {
	quotas := &offv1beta1.QuotaList{}
	if err := s.client.List(ctx, quotas, client.MatchingFields{creatorIndex: a.user}); err != nil {
		return nil, fmt.Errorf("listing quotas: %w", err)
	}
	for i := range quotas.Items {
		q := &quotas.Items[i]
		consumer, err := s.consumerOf(ctx, q.Namespace)
		if err != nil {
			return nil, err
		}
		if string(consumer) == a.consumer && q.DeletionTimestamp.IsZero() {
			return q, nil
		}
	}
	return nil, nil
}

// consumerOf returns the consumer of a tenant namespace, "" for any other namespace.
func (s *shadowPods) consumerOf(ctx context.Context, namespace string) (liqov1beta1.ClusterID, error) {
	ns := &corev1.Namespace{}
	if err := s.client.Get(ctx, client.ObjectKey{Name: namespace}, ns); err != nil {
		if apierrors.IsNotFound(err) {
			return "", nil
		}
		return "", fmt.Errorf("reading the namespace of a quota: %w", err)
	}
	id, ok := peer.OfNamespace(ns)
	if !ok || !ns.DeletionTimestamp.IsZero() {
		return "", nil
	}
	return id, nil
}

// ofQuota passes a changed Quota to the quota cache, which wakes the affected ShadowPods itself.
func (s *shadowPods) ofQuota(ctx context.Context, obj client.Object) []reconcile.Request {
	consumer, err := s.consumerOf(ctx, obj.GetNamespace())
	if err != nil || consumer == "" {
		return nil
	}
	a := account{consumer: string(consumer), user: policy.CreatorUser(obj.(*offv1beta1.Quota).Spec.User)}
	if q, err := s.quotaOf(ctx, a); err == nil {
		s.quotas.SetQuota(a, q)
	}
	return nil
}

// reserveQuota reserves quota for a pod to be created with spec. No slow step may come between reading the Quota and
// reserving: the quota cache learns of changes from the watch, too, and must not get an old version after a new one.
func (s *shadowPods) reserveQuota(ctx context.Context, sp *offv1beta1.ShadowPod, spec *corev1.PodSpec) error {
	q, err := s.quotaOf(ctx, accountOf(sp))
	if err != nil {
		s.quotas.Withdraw(sp)
		return err
	}
	asking := &offv1beta1.ShadowPod{ObjectMeta: sp.ObjectMeta, Spec: offv1beta1.ShadowPodSpec{Pod: *spec}}
	err = s.quotas.Reserve(asking, q, sp.Status.Phase == corev1.PodRunning || s.hasRun(sp.UID))
	if err == nil {
		return nil
	}
	reason := offv1beta1.ReasonRefused
	if over, ok := errors.AsType[*overQuota](err); ok && over.isTemporary() {
		reason = offv1beta1.ReasonOverQuota
	}
	// The quota cache wakes the ShadowPod, except where the client cache had the Quota before its namespace: hence the delay.
	return &podRejection{reason: reason, why: err, next: kube.Wait(holdLimit, err.Error())}
}
