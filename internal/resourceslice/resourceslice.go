// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

// Package resourceslice grants ResourceSlices in the provider and uses them in the consumer.
//
// A ResourceSlice is local, or a replica of a consumer's, and belongs to the peer of its namespace. No peer can
// influence the namespace. The provider's controller checks the certificate request, has it signed, grants resources and
// bounds them by a Quota. The consumer's controller fills in the request and creates the Identity and the VirtualNode.
package resourceslice

import (
	"context"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	liqov1beta1 "liqo.io/liqo/api/core/v1beta1"
	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/names"
	"liqo.io/liqo/internal/peer"
)

// peerOf returns the peer of a tenant namespace.
func peerOf(ctx context.Context, c client.Reader, namespace string) (liqov1beta1.ClusterID, error) {
	var ns corev1.Namespace
	if err := c.Get(ctx, types.NamespacedName{Name: namespace}, &ns); err != nil {
		return "", fmt.Errorf("reading namespace %s: %w", namespace, err)
	}
	id, ok := peer.OfNamespace(&ns)
	if !ok {
		return "", kube.Invalid("WrongNamespace", fmt.Errorf("namespace %s is not a tenant namespace: it needs the labels %s=true and %s",
			namespace, names.TenantNamespace, names.RemoteClusterID))
	}
	return id, nil
}

// eventRecorder collects the results of one run: the events to emit, and the delay until the next run.
type eventRecorder struct {
	mu     sync.Mutex
	events map[types.UID][]kube.Event
	next   map[types.UID]time.Time
}

func newNotes() *eventRecorder {
	return &eventRecorder{events: map[types.UID][]kube.Event{}, next: map[types.UID]time.Time{}}
}

func (n *eventRecorder) recordNormal(obj client.Object, reason, message string) {
	n.record(obj, kube.Event{Type: corev1.EventTypeNormal, Reason: reason, Message: message})
}

func (n *eventRecorder) recordWarning(obj client.Object, reason, message string) {
	n.record(obj, kube.Event{Type: corev1.EventTypeWarning, Reason: reason, Message: message})
}

func (n *eventRecorder) record(obj client.Object, e kube.Event) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.events[obj.GetUID()] = append(n.events[obj.GetUID()], e)
}

func (n *eventRecorder) comeBack(obj client.Object, at time.Time) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.next[obj.GetUID()] = at
}

// takeEvents returns the events of this run, and the event for an error.
func (n *eventRecorder) takeEvents(obj client.Object, err error) []kube.Event {
	n.mu.Lock()
	defer n.mu.Unlock()
	events := n.events[obj.GetUID()]
	delete(n.events, obj.GetUID())
	if reason, ok := kube.InvalidReason(err); ok {
		events = append(events, kube.Event{Type: corev1.EventTypeWarning, Reason: reason, Message: err.Error()})
	}
	return events
}

func (n *eventRecorder) takeNext(obj client.Object) (time.Time, bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	at, ok := n.next[obj.GetUID()]
	delete(n.next, obj.GetUID())
	return at, ok
}
