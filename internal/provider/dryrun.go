// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package provider

import (
	"context"
	"maps"
	"strings"
	"sync"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	offv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
)

// dryRunShared asks the ledger for what a pod will request. Admission of the provider adds to it, by a RuntimeClass, a LimitRange or a
// webhook: the API server is asked what becomes of the first of those that look alike, unless even what is known is too much.
func (s *shadowPods) dryRunShared(ctx context.Context, sp *offv1beta1.ShadowPod, pod *corev1.Pod) error {
	if !s.ledger.enforce {
		return s.reserveQuota(ctx, sp, &pod.Spec)
	}
	key := client.ObjectKeyFromObject(pod)
	if s.ledger.Doubtful(key) { // an earlier request may have made it: it keeps its share, whatever becomes of others
		if err := s.reserveQuota(ctx, sp, &pod.Spec); err != nil || s.ledger.Doubtful(key) { // it may have ended just then
			return err
		}
	}
	shape := shapeOf(pod)
	if spec := s.shapes.Get(shape, time.Now()); spec != nil {
		return s.reserveQuota(ctx, sp, spec)
	}
	if !s.ledger.Held(key) {
		if err := s.reserveQuota(ctx, sp, &pod.Spec); err != nil {
			return err
		}
	}
	dry := pod.DeepCopy()
	switch err := s.client.Create(ctx, dry, client.DryRunAll); {
	case apierrors.IsAlreadyExists(err):
		return s.reserveQuota(ctx, sp, &pod.Spec)
	case err != nil:
		s.ledger.Release(key) // whatever happened, nothing was made
		return whyNotMade(err, pod)
	}
	s.shapes.Learn(shape, &dry.Spec, time.Now())
	if err := s.reserveQuota(ctx, sp, &dry.Spec); err != nil {
		s.ledger.Release(key) // only a rehearsal was asked for
		return err
	}
	return nil
}

// templateCache remember what admission made of pods that look alike.
type templateCache struct {
	mu    sync.Mutex
	known map[podTemplateKey]dryRunResult
	swept time.Time
}

// podTemplateKey is how a pod looks to admission: a namespace, and a digest of what LimitRanges and webhooks go by.
type podTemplateKey struct{ namespace, digest string }

type dryRunResult struct {
	spec *corev1.PodSpec
	at   time.Time
}

// outcomeAge is how long an outcome counts: nobody tells when a webhook changes its mind.
const outcomeAge = time.Minute

// perPod are labels and annotations that pods of one template do not share.
var perPod = []string{appsv1.StatefulSetPodNameLabel, appsv1.PodIndexLabel, batchv1.JobCompletionIndexAnnotation}

func shapeOf(pod *corev1.Pod) podTemplateKey {
	labels, annotations := maps.Clone(pod.Labels), maps.Clone(pod.Annotations)
	for _, key := range perPod {
		delete(labels, key)
		delete(annotations, key)
	}
	maps.DeleteFunc(annotations, func(key, _ string) bool {
		domain, _, _ := strings.Cut(key, "/")
		return domain == "liqo.io" || strings.HasSuffix(domain, ".liqo.io") // ours say which pod it is
	})
	parts := []any{labels, annotations, pod.Spec.Resources, pod.Spec.RuntimeClassName, pod.Spec.ServiceAccountName, pod.Spec.PriorityClassName}
	for _, containers := range [][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for _, c := range containers {
			parts = append(parts, c.Name, c.Image, c.RestartPolicy, c.Resources)
		}
		parts = append(parts, len(containers))
	}
	return podTemplateKey{pod.Namespace, hashOf(parts...)}
}

// Learn takes note of what became of a pod.
func (s *templateCache) Learn(of podTemplateKey, spec *corev1.PodSpec, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.known == nil {
		s.known = map[podTemplateKey]dryRunResult{}
	}
	if now.Sub(s.swept) > outcomeAge {
		s.swept = now
		maps.DeleteFunc(s.known, func(_ podTemplateKey, o dryRunResult) bool { return now.Sub(o.at) > outcomeAge })
	}
	s.known[of] = dryRunResult{spec, now}
}

// Get returns what became of a pod that looked so, nil if that is not known.
func (s *templateCache) Get(of podTemplateKey, now time.Time) *corev1.PodSpec {
	s.mu.Lock()
	defer s.mu.Unlock()
	if o, ok := s.known[of]; ok && now.Sub(o.at) <= outcomeAge {
		return o.spec
	}
	return nil
}

// Forget is for a namespace whose LimitRanges changed.
func (s *templateCache) Forget(namespace string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	maps.DeleteFunc(s.known, func(of podTemplateKey, _ dryRunResult) bool { return of.namespace == namespace })
}
