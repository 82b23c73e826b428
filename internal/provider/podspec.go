// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package provider

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	offv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/names"
	"liqo.io/liqo/internal/policy"
)

// specToMake returns the spec of a new Pod. Ephemeral containers are added later.
func (s *shadowPods) specToMake(ctx context.Context, sp *offv1beta1.ShadowPod) (corev1.PodSpec, error) {
	spec := *sp.Spec.Pod.DeepCopy()
	spec.EphemeralContainers = nil
	spec.Tolerations = s.allowed.PodTolerations(sp)
	if !s.allowed.AllowsAccount(policy.AccountOf(&spec)) {
		spec.AutomountServiceAccountToken = new(false)
	}
	offloaded, err := s.isOffloading(ctx, sp.Namespace)
	if err != nil {
		return spec, err
	}
	if !offloaded {
		policy.KeepOffVirtualNodes(&spec)
	}
	defaults, err := s.defaultRequests(ctx, sp)
	if err != nil {
		return spec, err
	}
	policy.SetDefaultRequests(&spec, defaults)
	return spec, nil
}

// isOffloading reports whether this cluster itself offloads a namespace.
func (s *shadowPods) isOffloading(ctx context.Context, namespace string) (bool, error) {
	ns := &corev1.Namespace{}
	if err := s.client.Get(ctx, client.ObjectKey{Name: namespace}, ns); err != nil {
		return false, fmt.Errorf("reading the namespace: %w", err)
	}
	return ns.Labels[names.SchedulingEnabled] == "true", nil
}

// defaultRequests returns the default requests for containers of a ShadowPod without requests. Resources that the Quota does
// not list are left out: they would prevent the pod.
func (s *shadowPods) defaultRequests(ctx context.Context, sp *offv1beta1.ShadowPod) (corev1.ResourceList, error) {
	if !s.quotas.enforce || len(s.requests) == 0 {
		return s.requests, nil
	}
	q, err := s.quotaOf(ctx, accountOf(sp))
	if err != nil || q == nil {
		return nil, err
	}
	out := corev1.ResourceList{}
	for name, amount := range s.requests {
		if _, granted := q.Spec.Resources[name]; granted {
			out[name] = amount
		}
	}
	return out, nil
}
