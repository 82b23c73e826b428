// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package provider

import (
	"context"
	"fmt"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/names"
)

// cacheBarrier guards a change of leader: pods that the previous leader created last count, but the watch may not have shown
// them yet.
type cacheBarrier struct {
	mu     sync.Mutex
	listed bool
	// unknown are the listed pods that the quota cache has not counted yet.
	unknown map[types.NamespacedName]types.UID
}

// passBarrier returns an error until every existing pod is counted. It lists the pods once for each leader.
func (s *shadowPods) passBarrier(ctx context.Context) error {
	s.barrier.mu.Lock()
	defer s.barrier.mu.Unlock()
	if !s.barrier.listed {
		if err := s.listPods(ctx); err != nil {
			return err
		}
	}
	for key, uid := range s.barrier.unknown {
		cached := &corev1.Pod{}
		err := s.pods.Get(ctx, key, cached)
		if err == nil && cached.UID == uid && (hasEnded(cached.Status.Phase) || s.quotas.IsObserved(key)) {
			delete(s.barrier.unknown, key)
			continue
		}
		if err := s.lookAgain(ctx, key); err != nil {
			return err
		}
	}
	return nil
}

func (s *shadowPods) listPods(ctx context.Context) error {
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("PodList"))
	if err := s.live.List(ctx, list, client.MatchingLabels{names.ManagedBy: madeFrom}); err != nil {
		return fmt.Errorf("listing the pods of an earlier leader: %w", err)
	}
	s.barrier.listed, s.barrier.unknown = true, map[types.NamespacedName]types.UID{}
	for i := range list.Items {
		s.barrier.unknown[client.ObjectKeyFromObject(&list.Items[i])] = list.Items[i].UID
	}
	return nil
}

// lookAgain returns an error until the pod is counted, or nil if the pod was deleted meanwhile: the watch may never show a deleted pod.
func (s *shadowPods) lookAgain(ctx context.Context, key types.NamespacedName) error {
	pod := &metav1.PartialObjectMetadata{}
	pod.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Pod"))
	err := s.live.Get(ctx, key, pod)
	switch {
	case apierrors.IsNotFound(err):
		delete(s.barrier.unknown, key)
		return nil
	case err != nil:
		return fmt.Errorf("reading a pod of an earlier leader: %w", err)
	}
	s.barrier.unknown[key] = pod.UID
	return kube.Wait(watchDelay, "the cache does not have all pods of an earlier leader yet")
}
