// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package provider

import (
	"cmp"
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"liqo.io/liqo/internal/kube"
)

// watchLimits retries refused pods after the provider's administrator raised a limit, or after a ResourceQuota counted lower
// usage. The cache keeps only the fields read here.
func (s *shadowPods) watchLimits(mgr ctrl.Manager, b *builder.Builder) error {
	limits, err := kube.AddCache(mgr, map[client.Object]cache.ByObject{
		&corev1.ResourceQuota{}: {Transform: bareQuota},
		&corev1.LimitRange{}:    {Transform: bareRange},
	})
	if err != nil {
		return fmt.Errorf("reading the limits of namespaces: %w", err)
	}
	b.WatchesRawSource(source.Kind(limits, &corev1.ResourceQuota{}, retryHandler(&s.retries, quotaRetries))).
		WatchesRawSource(source.Kind(limits, &corev1.LimitRange{}, retryHandler(&s.retries, s.rangeRetries)))
	return nil
}

// retryHandler begins rounds of retries. retries returns the maximum number of refusals in the round, 0 for no round; before is
// nil for a new object, and after for a deleted one.
func retryHandler[T client.Object](refused *retryQueue, retries func(before, after T) int) handler.TypedEventHandler[T, reconcile.Request] {
	type queue = workqueue.TypedRateLimitingInterface[reconcile.Request]
	var none T
	begin := func(namespace string, refusals int) {
		if refusals > 0 {
			refused.Retry(namespace, refusals)
		}
	}
	return handler.TypedFuncs[T, reconcile.Request]{
		CreateFunc: func(_ context.Context, e event.TypedCreateEvent[T], _ queue) {
			begin(e.Object.GetNamespace(), retries(none, e.Object))
		},
		UpdateFunc: func(_ context.Context, e event.TypedUpdateEvent[T], _ queue) {
			begin(e.ObjectNew.GetNamespace(), retries(e.ObjectOld, e.ObjectNew))
		},
		DeleteFunc: func(_ context.Context, e event.TypedDeleteEvent[T], _ queue) {
			begin(e.Object.GetNamespace(), retries(e.Object, none))
		},
	}
}

// quotaRetries compares the status, as admission of the API server does: the status follows the spec and the pods.
func quotaRetries(before, after *corev1.ResourceQuota) int {
	switch {
	case before == nil:
		return 0
	case after == nil:
		return unlimitedRefusals
	}
	refusals := 0
	for name, hard := range before.Status.Hard {
		now, limited := after.Status.Hard[name]
		if !limited || now.Cmp(hard) > 0 {
			return unlimitedRefusals
		}
		if was, is := before.Status.Used[name], after.Status.Used[name]; is.Cmp(was) < 0 {
			refusals = refusalsPerRelease
		}
	}
	return refusals
}

// rangeRetries also begins a round for a new LimitRange: a ResourceQuota may require its defaults.
func (s *shadowPods) rangeRetries(before, after *corev1.LimitRange) int {
	if before != nil && after != nil && equality.Semantic.DeepEqual(before.Spec, after.Spec) {
		return 0
	}
	s.templates.Forget(cmp.Or(after, before).Namespace)
	return unlimitedRefusals
}

func bareMeta(obj client.Object) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: obj.GetNamespace(), Name: obj.GetName(), UID: obj.GetUID(), ResourceVersion: obj.GetResourceVersion()}
}

func bareQuota(obj any) (any, error) {
	if q, ok := obj.(*corev1.ResourceQuota); ok {
		q.ObjectMeta, q.Spec = bareMeta(q), corev1.ResourceQuotaSpec{}
	}
	return obj, nil
}

func bareRange(obj any) (any, error) {
	if l, ok := obj.(*corev1.LimitRange); ok {
		l.ObjectMeta = bareMeta(l)
	}
	return obj, nil
}
