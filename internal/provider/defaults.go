// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package provider

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/internal/names"
)

// defaultLimits is the name of the default ResourceQuota and LimitRange of a remote namespace.
const defaultLimits = "liqo-default"

// ensureLimits creates the default ResourceQuota and LimitRange of a remote namespace, once. From then on the administrator may
// change and delete them, as the annotation of the namespace records. Namespaces of older releases have no annotation and get
// no limits, which their pods might exceed.
func (s *namespaceMaps) ensureLimits(ctx context.Context, namespace *corev1.Namespace) error {
	if namespace.Annotations[names.DefaultLimits] != names.DefaultLimitsPending {
		return nil
	}
	if quota := defaultQuota(namespace.Name, s.options.Quota); quota != nil {
		if err := s.createQuota(ctx, quota); err != nil {
			return err
		}
	}
	if limits := defaultRange(namespace.Name, s.options.Requests, s.options.Limits); limits != nil {
		if err := s.client.Create(ctx, limits); err != nil && !apierrors.IsAlreadyExists(err) {
			return fmt.Errorf("creating LimitRange %s/%s: %w", limits.Namespace, limits.Name, err)
		}
	}
	body := fmt.Appendf(nil, `{"metadata":{"uid":%q,"annotations":{%q:%q}}}`, namespace.UID, names.DefaultLimits, names.DefaultLimitsCreated)
	if err := s.client.Patch(ctx, namespace.DeepCopy(), client.RawPatch(types.MergePatchType, body)); err != nil {
		return fmt.Errorf("annotating namespace %q: %w", namespace.Name, err)
	}
	return nil
}

// createQuota creates the ResourceQuota and its status: until the controller of Kubernetes has counted the usage, for up
// to some seconds, the API server denies all objects in the namespace.
func (s *namespaceMaps) createQuota(ctx context.Context, quota *corev1.ResourceQuota) error {
	err := s.client.Create(ctx, quota)
	if apierrors.IsAlreadyExists(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("creating ResourceQuota %s/%s: %w", quota.Namespace, quota.Name, err)
	}
	quota.Status.Hard, quota.Status.Used = quota.Spec.Hard.DeepCopy(), corev1.ResourceList{}
	for name := range quota.Spec.Hard {
		quota.Status.Used[name] = resource.Quantity{}
	}
	// On a conflict, the controller of Kubernetes was first.
	if err := s.client.Status().Update(ctx, quota); err != nil && !apierrors.IsConflict(err) {
		return fmt.Errorf("initializing ResourceQuota %s/%s: %w", quota.Namespace, quota.Name, err)
	}
	return nil
}

// defaultQuota returns the default ResourceQuota, nil if there are no limits.
func defaultQuota(namespace string, hard corev1.ResourceList) *corev1.ResourceQuota {
	if len(hard) == 0 {
		return nil
	}
	return &corev1.ResourceQuota{ObjectMeta: defaultMeta(namespace), Spec: corev1.ResourceQuotaSpec{Hard: hard.DeepCopy()}}
}

// defaultRange returns the default LimitRange, nil if there are no defaults for containers.
func defaultRange(namespace string, requests, limits corev1.ResourceList) *corev1.LimitRange {
	if len(requests)+len(limits) == 0 {
		return nil
	}
	return &corev1.LimitRange{ObjectMeta: defaultMeta(namespace), Spec: corev1.LimitRangeSpec{Limits: []corev1.LimitRangeItem{{
		Type: corev1.LimitTypeContainer, DefaultRequest: requests.DeepCopy(), Default: limits.DeepCopy(),
	}}}}
}

func defaultMeta(namespace string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: namespace, Name: defaultLimits, Labels: map[string]string{names.AppManagedBy: names.ManagedByLiqo}}
}
