// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package webhook

import (
	"context"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	offv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/names"
	"liqo.io/liqo/internal/policy"
)

// podSteerer sets the scheduling constraints of pods in offloaded namespaces.
type podSteerer struct {
	cachedReader
	runtimeClass string
}

// mutateObject fails without a NamespaceOffloading in the namespace: if the namespace is labelled first, no pod must be scheduled to
// a wrong node.
func (p *podSteerer) mutateObject(ctx context.Context, req *admission.Request, _, pod *corev1.Pod) error {
	nso, err := p.namespaceOffloading(ctx, req.Namespace)
	if err == nil && nso.DeletionTimestamp.IsZero() {
		policy.SteerPod(pod, nso, p.runtimeClass)
	}
	return err
}

// fieldSteerer keeps one pod off the clusters whose Kubernetes drops a field of the pod. The chart sends only pods with such fields.
type fieldSteerer struct {
	cachedReader
	warning string
}

func (s *fieldSteerer) mutateObject(ctx context.Context, req *admission.Request, _, pod *corev1.Pod) error {
	nso, err := s.namespaceOffloading(ctx, req.Namespace)
	if err == nil && nso.DeletionTimestamp.IsZero() {
		s.warning = policy.RequireMinor(pod, nso)
	}
	return err
}

func (r cachedReader) namespaceOffloading(ctx context.Context, namespace string) (*offv1beta1.NamespaceOffloading, error) {
	nso := &offv1beta1.NamespaceOffloading{}
	if err := r.getObject(ctx, client.ObjectKey{Namespace: namespace, Name: names.NamespaceOffloading}, nso); err != nil {
		return nil, fmt.Errorf("reading how namespace %q is offloaded: %w", namespace, err)
	}
	return nso, nil
}

// fieldSteering returns the handler of pods with new fields, which also warns their users.
func fieldSteering(decoder admission.Decoder, reader cachedReader) admission.Handler {
	return admission.HandlerFunc(func(ctx context.Context, req admission.Request) admission.Response {
		s := &fieldSteerer{cachedReader: reader}
		response := mutatingHandler(decoder, s).Handle(ctx, req)
		if s.warning == "" {
			return response
		}
		return response.WithWarnings(s.warning)
	})
}

// namespaceOffloadingValidator warns users about the limits of a changed strategy; the schema denies what is invalid.
type namespaceOffloadingValidator struct{}

func (namespaceOffloadingValidator) validateObject(_ context.Context, _ *admission.Request, old, nso *offv1beta1.NamespaceOffloading) ([]string, error) {
	now := nso.Spec.PodOffloadingStrategy
	if old == nil || old.Spec.PodOffloadingStrategy == now || now == offv1beta1.LocalAndRemotePodOffloadingStrategyType {
		return nil, nil
	}
	if nso.Annotations[names.EvictMisplacedPods] == "true" {
		return []string{fmt.Sprintf("pods that run where the strategy %s forbids them are evicted, as the annotation %s asks for", now, names.EvictMisplacedPods)}, nil
	}
	return []string{fmt.Sprintf("pods that run already stay where they are, even where the strategy %s forbids them; the annotation %s=true has them evicted", now, names.EvictMisplacedPods)}, nil
}

// daemonSetSteerer keeps DaemonSets off virtual nodes, where their pods would stay pending.
type daemonSetSteerer struct{}

func (daemonSetSteerer) mutateObject(_ context.Context, _ *admission.Request, _, ds *appsv1.DaemonSet) error {
	policy.KeepDaemonSetOff(ds)
	return nil
}
