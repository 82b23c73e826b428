// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package host

import (
	"context"
	"fmt"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/names"
)

// fence stands between two leaders: the pods that the earlier one made last may not have come by the watch yet, and count.
type fence struct {
	mu     sync.Mutex
	passed bool
}

// pass returns an error until every pod that there is was counted. It asks the API server once for each leader.
func (s *shadowPods) pass(ctx context.Context) error {
	s.fence.mu.Lock()
	defer s.fence.mu.Unlock()
	if s.fence.passed {
		return nil
	}
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("PodList"))
	if err := s.live.List(ctx, list, client.MatchingLabels{names.ManagedBy: madeFrom}); err != nil {
		return fmt.Errorf("listing the pods that an earlier leader made: %w", err)
	}
	for i := range list.Items {
		key := client.ObjectKeyFromObject(&list.Items[i])
		cached := &corev1.Pod{}
		err := s.pods.Get(ctx, key, cached)
		if err != nil || cached.UID != list.Items[i].UID || !ended(cached.Status.Phase) && !s.ledger.Seen(key) {
			return kube.Wait(watchDelay, "not all pods that an earlier leader made are known yet")
		}
	}
	s.fence.passed = true
	return nil
}
