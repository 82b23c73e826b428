// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package provider

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"liqo.io/liqo/internal/kube"
)

// reasonNodeFailed is the reason of the event on a pod that is not waited for any longer.
const reasonNodeFailed = "NodeFailed"

// nodeFailure removes pods of consumers that cannot terminate because their node has failed: their ShadowPods get replacements
// on other nodes. By enabling this, an administrator accepts that a merely partitioned node may still run the old pods.
type nodeFailure struct {
	client client.Client
	pods   client.Reader
	events events.EventRecorder
	now    func() time.Time
}

const byNode = "spec.nodeName"

func setupNodeFailure(mgr ctrl.Manager, pods cache.Cache) error {
	err := pods.IndexField(context.Background(), &corev1.Pod{}, byNode, func(obj client.Object) []string {
		if pod := obj.(*corev1.Pod); !pod.DeletionTimestamp.IsZero() {
			return []string{pod.Spec.NodeName}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("indexing the pods that end by their nodes: %w", err)
	}
	f := &nodeFailure{client: mgr.GetClient(), pods: pods, events: mgr.GetEventRecorder("liqo-node-failure"), now: time.Now}
	c := kube.NewController(mgr, kube.Options{Name: "node-failure"}, f)
	return c.Builder(predicate.Funcs{UpdateFunc: readinessChanged}).
		WatchesRawSource(source.Kind(pods, &corev1.Pod{}, handler.TypedEnqueueRequestsFromMapFunc(nodeOfEnding))).
		Complete(c)
}

func readinessChanged(e event.UpdateEvent) bool {
	before, after := e.ObjectOld.(*corev1.Node), e.ObjectNew.(*corev1.Node)
	return nodeFailed(before) != nodeFailed(after)
}

// nodeOfEnding enqueues the node of a terminating pod.
func nodeOfEnding(_ context.Context, pod *corev1.Pod) []reconcile.Request {
	if pod.DeletionTimestamp.IsZero() || pod.Spec.NodeName == "" {
		return nil
	}
	return []reconcile.Request{{NamespacedName: types.NamespacedName{Name: pod.Spec.NodeName}}}
}

// nodeFailed reports whether a node is NotReady, or has sent no heartbeat for too long.
func nodeFailed(node *corev1.Node) bool {
	return slices.ContainsFunc(node.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Status != corev1.ConditionTrue
	})
}

// Sync removes the pods of the node whose termination is overdue.
func (f *nodeFailure) Sync(ctx context.Context, node *corev1.Node) error {
	if !nodeFailed(node) {
		return nil
	}
	pods := &corev1.PodList{}
	if err := f.pods.List(ctx, pods, client.MatchingFields{byNode: node.Name}); err != nil {
		return fmt.Errorf("listing the pods of the node: %w", err)
	}
	var next time.Duration
	for i := range pods.Items {
		pod := &pods.Items[i]
		if remaining := pod.DeletionTimestamp.Sub(f.now()); remaining > 0 { // the rest of its grace period
			if next == 0 || remaining < next {
				next = remaining
			}
			continue
		}
		if err := f.removePod(ctx, node, pod); err != nil {
			return err
		}
	}
	if next > 0 {
		return kube.Wait(next, "pods of the node may still end by themselves")
	}
	return nil
}

func (f *nodeFailure) removePod(ctx context.Context, node *corev1.Node, pod *corev1.Pod) error {
	err := f.client.Delete(ctx, pod, client.GracePeriodSeconds(0), client.Preconditions{UID: &pod.UID})
	switch {
	case apierrors.IsNotFound(err) || apierrors.IsConflict(err):
		return nil
	case err != nil:
		return fmt.Errorf("removing the pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	f.events.Eventf(pod, node, corev1.EventTypeWarning, reasonNodeFailed, "Remove", "%s",
		kube.Note(fmt.Sprintf("The node %s is not ready and did not end the pod in time: it is removed, to run elsewhere", node.Name)))
	return nil
}
