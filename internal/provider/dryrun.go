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

// dryRunShared reserves quota for the requests of a pod after admission. Admission of the provider may add requests by a
// RuntimeClass, a LimitRange or a webhook, so the first of all pods with the same template is created in a dry run, unless the
// known requests exceed the Quota already.
func (s *shadowPods) dryRunShared(ctx context.Context, sp *offv1beta1.ShadowPod, pod *corev1.Pod) error {
	if !s.quotas.enforce {
		return s.reserveQuota(ctx, sp, &pod.Spec)
	}
	key := client.ObjectKeyFromObject(pod)
	if s.quotas.IsUncertain(key) { // an earlier request may have created the pod: its reservation stays, independently of other pods
		if err := s.reserveQuota(ctx, sp, &pod.Spec); err != nil || s.quotas.IsUncertain(key) { // the doubt may have ended just then
			return err
		}
	}
	template := templateKeyOf(pod)
	if spec := s.templates.Get(template, time.Now()); spec != nil {
		return s.reserveQuota(ctx, sp, spec)
	}
	if !s.quotas.IsReserved(key) {
		if err := s.reserveQuota(ctx, sp, &pod.Spec); err != nil {
			return err
		}
	}
	dry := pod.DeepCopy()
	switch err := s.client.Create(ctx, dry, client.DryRunAll); {
	case apierrors.IsAlreadyExists(err):
		return s.reserveQuota(ctx, sp, &pod.Spec)
	case err != nil:
		s.quotas.Release(key) // a dry run creates no pod, even if it fails
		return whyNotMade(err, pod)
	}
	s.templates.Learn(template, &dry.Spec, time.Now())
	return s.reserveQuota(ctx, sp, &dry.Spec)
}

// templateCache caches the result of admission for pods with the same template.
type templateCache struct {
	mu    sync.Mutex
	known map[podTemplateKey]dryRunResult
	swept time.Time
}

// podTemplateKey identifies a pod for admission: the namespace, and a digest of the fields that LimitRanges and webhooks
// depend on.
type podTemplateKey struct{ namespace, digest string }

type dryRunResult struct {
	spec *corev1.PodSpec
	at   time.Time
}

// outcomeAge is the validity of a cached result: no watch reports a changed decision of a webhook.
const outcomeAge = time.Minute

// perPod are the labels and annotations with different values in pods of one template.
var perPod = []string{appsv1.StatefulSetPodNameLabel, appsv1.PodIndexLabel, batchv1.JobCompletionIndexAnnotation}

func templateKeyOf(pod *corev1.Pod) podTemplateKey {
	labels, annotations := maps.Clone(pod.Labels), maps.Clone(pod.Annotations)
	for _, key := range perPod {
		delete(labels, key)
		delete(annotations, key)
	}
	maps.DeleteFunc(annotations, func(key, _ string) bool {
		domain, _, _ := strings.Cut(key, "/")
		return domain == "liqo.io" || strings.HasSuffix(domain, ".liqo.io") // labels of Liqo identify the single pod
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

// Learn caches the spec that admission returned for a template.
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

// Get returns the cached spec for a template, nil if there is none.
func (s *templateCache) Get(of podTemplateKey, now time.Time) *corev1.PodSpec {
	s.mu.Lock()
	defer s.mu.Unlock()
	if o, ok := s.known[of]; ok && now.Sub(o.at) <= outcomeAge {
		return o.spec
	}
	return nil
}

// Forget removes the entries of a namespace whose LimitRanges changed.
func (s *templateCache) Forget(namespace string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	maps.DeleteFunc(s.known, func(of podTemplateKey, _ dryRunResult) bool { return of.namespace == namespace })
}
