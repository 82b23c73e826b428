// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"liqo.io/liqo/internal/names"
)

// fairQueue is the storage of a work queue that serves groups of requests round-robin: a group with many requests
// delays another group by one request only. The work queue calls fairQueue under its lock.
type fairQueue struct {
	group func(reconcile.Request) string
	// waiting holds the requests of each group in FIFO order; turns lists the groups that have requests.
	waiting map[string][]reconcile.Request
	turns   []string
	length  int
}

var _ workqueue.Queue[reconcile.Request] = &fairQueue{}

func newFairQueue(group func(reconcile.Request) string) *fairQueue {
	return &fairQueue{group: group, waiting: map[string][]reconcile.Request{}}
}

func (q *fairQueue) Touch(reconcile.Request) {}

func (q *fairQueue) Push(r reconcile.Request) {
	group := q.group(r)
	if len(q.waiting[group]) == 0 {
		q.turns = append(q.turns, group)
	}
	q.waiting[group] = append(q.waiting[group], r)
	q.length++
}

func (q *fairQueue) Len() int { return q.length }

func (q *fairQueue) Pop() reconcile.Request {
	group := q.turns[0]
	q.turns = q.turns[1:]
	next := q.waiting[group][0]
	if rest := q.waiting[group][1:]; len(rest) > 0 {
		q.waiting[group] = rest
		q.turns = append(q.turns, group)
	} else {
		delete(q.waiting, group)
	}
	q.length--
	return next
}

// fairWorkQueue returns a constructor of a controller's work queue with fair queuing by group.
func fairWorkQueue(group func(reconcile.Request) string) func(string, workqueue.TypedRateLimiter[reconcile.Request]) workqueue.TypedRateLimitingInterface[reconcile.Request] {
	return func(name string, limiter workqueue.TypedRateLimiter[reconcile.Request]) workqueue.TypedRateLimitingInterface[reconcile.Request] {
		queue := workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[reconcile.Request]{Name: name, Queue: newFairQueue(group)})
		delaying := workqueue.NewTypedDelayingQueueWithConfig(workqueue.TypedDelayingQueueConfig[reconcile.Request]{Name: name, Queue: queue})
		return workqueue.NewTypedRateLimitingQueueWithConfig(limiter, workqueue.TypedRateLimitingQueueConfig[reconcile.Request]{Name: name, DelayingQueue: delaying})
	}
}

// PeerOf returns a function that maps a request to the peer of its namespace, by the cluster ID label of the cached
// Namespace. A namespace without the label is a separate group.
func PeerOf(c client.Reader) func(reconcile.Request) string {
	return func(r reconcile.Request) string {
		ns := &corev1.Namespace{}
		if err := c.Get(context.Background(), client.ObjectKey{Name: r.Namespace}, ns, client.UnsafeDisableDeepCopy); err != nil || ns.Labels[names.RemoteClusterID] == "" {
			return "namespace/" + r.Namespace
		}
		return "peer/" + ns.Labels[names.RemoteClusterID]
	}
}
