// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package consumer

import (
	"context"
	"fmt"

	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
)

// evictionsAtOnce bounds the concurrent requests for one node or namespace.
const evictionsAtOnce = 10

// evictor asks pods to go, as far as their disruption budgets allow.
type evictor struct{ pods rest.Interface }

func newEvictor(mgr ctrl.Manager) (evictor, error) {
	pods, err := typedcorev1.NewForConfigAndClient(mgr.GetConfig(), mgr.GetHTTPClient())
	if err != nil {
		return evictor{}, fmt.Errorf("making a client for evictions: %w", err)
	}
	return evictor{pods: pods.RESTClient()}, nil
}

// evictPod sends one request. A default client would obey the answer "retry after ten seconds" of a disruption budget,
// which would block a worker.
func (e evictor) evictPod(ctx context.Context, namespace, name string, uid types.UID) error {
	return e.pods.Post().Namespace(namespace).Resource("pods").Name(name).SubResource("eviction").
		Body(&policyv1.Eviction{
			ObjectMeta:    metav1.ObjectMeta{Namespace: namespace, Name: name},
			DeleteOptions: &metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: new(uid)}},
		}).MaxRetries(0).Do(ctx).Error()
}
