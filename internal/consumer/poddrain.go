// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package consumer

import (
	"context"
	"fmt"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"

	offv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
)

// podDrainWatcher notifies when all pods have left a draining node. Pods are not cached: there may be thousands, needed only during a
// drain. The drain polls as well, since a watch may end.
type podDrainWatcher struct {
	cluster client.WithWatch
	drained chan event.GenericEvent

	mu      sync.Mutex
	awaited map[types.UID]bool // VirtualNodes
}

func newPodDrainWatcher(mgr ctrl.Manager) (*podDrainWatcher, error) {
	cluster, err := client.NewWithWatch(mgr.GetConfig(), client.Options{HTTPClient: mgr.GetHTTPClient(), Scheme: mgr.GetScheme(), Mapper: mgr.GetRESTMapper()})
	if err != nil {
		return nil, fmt.Errorf("making a client that watches pods leave: %w", err)
	}
	return &podDrainWatcher{cluster: cluster, drained: make(chan event.GenericEvent), awaited: map[types.UID]bool{}}, nil
}

// watchPodsOf starts a watch and returns at once. The watch notifies when all pods of the list, and later pods of the node, are gone.
func (d *podDrainWatcher) watchPodsOf(ctx context.Context, vn *offv1beta1.VirtualNode, list *metav1.PartialObjectMetadataList) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.awaited[vn.UID] {
		return
	}
	d.awaited[vn.UID] = true
	node, uid, version, remaining := vn.DeepCopy(), vn.UID, list.ResourceVersion, map[types.UID]bool{}
	for i := range list.Items {
		if !staysOnNode(list.Items[i]) {
			remaining[list.Items[i].UID] = true
		}
	}
	go func() {
		gone := d.watchNode(ctx, node.Name, version, remaining)
		d.mu.Lock()
		delete(d.awaited, uid)
		d.mu.Unlock()
		if !gone {
			return
		}
		select {
		case d.drained <- event.GenericEvent{Object: node}:
		case <-ctx.Done():
		}
	}()
}

// watchNode returns true when no pod is left, and false when the watch ends.
func (d *podDrainWatcher) watchNode(ctx context.Context, node, version string, remaining map[types.UID]bool) bool {
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("PodList"))
	events, err := d.cluster.Watch(ctx, list, &client.ListOptions{
		FieldSelector: fields.OneTermEqualSelector("spec.nodeName", node), Raw: &metav1.ListOptions{ResourceVersion: version},
	})
	if err != nil {
		return false
	}
	defer events.Stop()
	for e := range events.ResultChan() {
		pod, ok := e.Object.(*metav1.PartialObjectMetadata)
		switch {
		case !ok:
			return false
		case e.Type == watch.Deleted:
			delete(remaining, pod.UID)
		case !staysOnNode(*pod):
			remaining[pod.UID] = true
		}
		if len(remaining) == 0 {
			return true
		}
	}
	return false
}
