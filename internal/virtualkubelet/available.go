// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package virtualkubelet

import (
	"context"
	"sync/atomic"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/internal/names"
)

// availability tracks whether the pods of this node can be reached, the condition for a Ready Node. The control plane marks pods
// of a Node that is not Ready unready; the last status from the provider must not make them ready again. Each pod is written once
// when it becomes unavailable, with a label, and once when it is available again.
type availability struct {
	pods    client.Reader
	changed func(client.ObjectKey)
	log     logr.Logger
	// now is nil until it is decided: a new process leaves the pods as they were.
	now atomic.Pointer[bool]
}

func (a *availability) setAvailable(ctx context.Context, is bool) {
	if before := a.now.Swap(&is); before != nil && *before == is {
		return
	}
	var pods corev1.PodList
	if err := a.pods.List(ctx, &pods); err != nil {
		a.log.Error(err, "listing the pods of the node")
		a.now.Store(nil) // the next reconciliation of the Node retries
		return
	}
	for i := range pods.Items {
		if pod := &pods.Items[i]; !hasEnded(pod) && a.setLabel(pod) {
			a.changed(client.ObjectKeyFromObject(pod))
		}
	}
}

// setLabel sets the label on a pod to be written, and reports whether the label changed.
func (a *availability) setLabel(pod *corev1.Pod) (changed bool) {
	is := a.now.Load()
	if is == nil || *is == (pod.Labels[names.RemoteUnavailable] == "") {
		return false
	}
	if *is {
		delete(pod.Labels, names.RemoteUnavailable)
	} else {
		metav1.SetMetaDataLabel(&pod.ObjectMeta, names.RemoteUnavailable, "true")
	}
	return true
}
