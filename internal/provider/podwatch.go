// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package provider

import (
	"context"
	"maps"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	offv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
)

// requestQueue gives access to the queue of the controller once it runs.
type requestQueue struct {
	atomic.Pointer[workqueue.TypedRateLimitingInterface[reconcile.Request]]
}

// Start implements source.Source without any events of its own, to get the queue.
func (q *requestQueue) Start(_ context.Context, to workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
	q.Store(&to)
	return nil
}

func (q *requestQueue) wakeUp(key types.NamespacedName) {
	if to := q.Load(); to != nil {
		(*to).Add(reconcile.Request{NamespacedName: key})
	}
}

// podEvents updates the quota cache before any ShadowPod is woken.
type podEvents struct {
	handler.TypedEventHandler[*corev1.Pod, reconcile.Request]
	s *shadowPods
}

func (p podEvents) Create(ctx context.Context, e event.TypedCreateEvent[*corev1.Pod], q workqueue.TypedRateLimitingInterface[reconcile.Request]) {
	p.s.observePod(ctx, e.Object, true)
	p.TypedEventHandler.Create(ctx, e, q)
}

func (p podEvents) Update(ctx context.Context, e event.TypedUpdateEvent[*corev1.Pod], q workqueue.TypedRateLimitingInterface[reconcile.Request]) {
	another := e.ObjectOld.UID != e.ObjectNew.UID // the watch was interrupted between the two pods
	if another {
		p.s.observeGone(ctx, e.ObjectOld)
	}
	p.s.observePod(ctx, e.ObjectNew, another)
	if hasEnded(e.ObjectNew.Status.Phase) && !hasEnded(e.ObjectOld.Status.Phase) {
		p.s.retries.Retry(e.ObjectNew.Namespace, refusalsPerRelease)
	}
	if concernsShadow(e.ObjectOld, e.ObjectNew) {
		p.TypedEventHandler.Update(ctx, e, q)
	}
}

// concernsShadow filters out updates of pods that Sync does not read: most change conditions and addresses.
func concernsShadow(before, after *corev1.Pod) bool {
	return before.UID != after.UID || !before.DeletionTimestamp.Equal(after.DeletionTimestamp) ||
		!maps.Equal(before.Labels, after.Labels) || !maps.Equal(before.Annotations, after.Annotations) ||
		!equality.Semantic.DeepEqual(before.OwnerReferences, after.OwnerReferences) ||
		!equality.Semantic.DeepEqual(before.Status, after.Status) // as trimmed by the cache
}

func (p podEvents) Delete(ctx context.Context, e event.TypedDeleteEvent[*corev1.Pod], q workqueue.TypedRateLimitingInterface[reconcile.Request]) {
	p.s.observeGone(ctx, e.Object)
	p.s.retries.Retry(e.Object.Namespace, refusalsPerRelease)
	p.TypedEventHandler.Delete(ctx, e, q)
}

// observePod passes the state of a pod in the watch to the quota cache. A pod that has ended before its first event was created
// all the same. Later events of an ended pod are not passed as seen: the quota cache may have forgotten the ended pod and would
// assign the event to a request for the next pod.
func (s *shadowPods) observePod(ctx context.Context, pod *corev1.Pod, first bool) {
	s.rememberPod(ctx, pod)
	if first || !hasEnded(pod.Status.Phase) {
		s.quotas.ObservePod(pod)
	}
	if hasEnded(pod.Status.Phase) {
		s.quotas.ObserveEnd(pod)
	}
}

func (s *shadowPods) observeGone(ctx context.Context, pod *corev1.Pod) {
	s.rememberPod(ctx, pod)
	s.quotas.ObserveEnd(pod)
}

// rememberPod stores how a pod ended until its ShadowPod has the same phase: the pod may be deleted earlier, and must not run
// again. rememberPod also stores that the pod ran, to be written later: after a loss of the ShadowPod's pod, a cordon still permits
// another pod.
func (s *shadowPods) rememberPod(ctx context.Context, pod *corev1.Pod) {
	owner := metav1.GetControllerOf(pod)
	if owner == nil || !hasEnded(phaseToReport(pod)) && (pod.Status.Phase != corev1.PodRunning || s.hasRun(owner.UID)) {
		return
	}
	sp := &offv1beta1.ShadowPod{}
	err := s.client.Get(ctx, client.ObjectKeyFromObject(pod), sp)
	switch {
	case err != nil || sp.UID != owner.UID || hasEnded(sp.Status.Phase):
	case hasEnded(phaseToReport(pod)):
		s.ends.Put(sp.UID, pod.Status.Phase)
	case sp.Status.Phase == "":
		s.ran.Put(sp.UID, struct{}{})
	}
}

func (s *shadowPods) hasRun(sp types.UID) bool {
	_, ran := s.ran.Get(sp)
	return ran
}

// ofNamespace retries all refused ShadowPods of a namespace: its labels decide on the permitted pods.
func (s *shadowPods) ofNamespace(_ context.Context, obj client.Object) []reconcile.Request {
	var out []reconcile.Request
	for _, key := range s.retries.In(obj.GetName()) {
		out = append(out, reconcile.Request{NamespacedName: key})
	}
	return out
}

// forgetShadowPod removes the state of a deleted ShadowPod.
func (s *shadowPods) forgetShadowPod(_ context.Context, e event.DeleteEvent, _ workqueue.TypedRateLimitingInterface[reconcile.Request]) {
	if sp, ok := e.Object.(*offv1beta1.ShadowPod); ok {
		s.quotas.Withdraw(sp)
		s.retries.Drop(client.ObjectKeyFromObject(sp))
		s.ends.Drop(sp.UID)
		s.ran.Drop(sp.UID)
	}
}
