// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package resourceslice

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	authv1beta1 "liqo.io/liqo/api/authentication/v1beta1"
	liqov1beta1 "liqo.io/liqo/api/core/v1beta1"
	"liqo.io/liqo/internal/peer"
	"liqo.io/liqo/internal/pki"
	"liqo.io/liqo/internal/policy"
)

// sliceView is the input of the decisions about one ResourceSlice.
type sliceView struct {
	consumer liqov1beta1.ClusterID
	subject  pki.Subject
	tenant   *authv1beta1.Tenant         // nil if missing
	version  *liqov1beta1.Condition      // compatibility problem of the consumer's version, or nil
	siblings []authv1beta1.ResourceSlice // shared with the cache
	nodes    []corev1.Node
	storage  []storagev1.StorageClass
}

func (r *remoteSlices) gatherView(ctx context.Context, slice *authv1beta1.ResourceSlice) (*sliceView, error) {
	consumer, err := peerOf(ctx, r.client, slice.Namespace)
	if err != nil {
		return nil, err
	}
	in := &sliceView{consumer: consumer, subject: pki.SliceSubject(slice.Name, string(consumer))}
	var tenants authv1beta1.TenantList
	if err := r.client.List(ctx, &tenants, client.InNamespace(slice.Namespace)); err != nil {
		return nil, fmt.Errorf("listing tenants: %w", err)
	}
	in.tenant = peer.Tenant(tenants.Items, consumer)
	if in.version, err = peer.FindVersionRefused(ctx, r.client, consumer); err != nil {
		return nil, err
	}
	if in.siblings, err = r.slicesOfTenant(ctx, slice.Namespace); err != nil {
		return nil, err
	}
	var nodes corev1.NodeList
	if err := r.client.List(ctx, &nodes); err != nil {
		return nil, fmt.Errorf("listing nodes: %w", err)
	}
	in.nodes = nodes.Items
	if r.options.Storage {
		var classes storagev1.StorageClassList
		if err := r.client.List(ctx, &classes); err != nil {
			return nil, fmt.Errorf("listing storage classes: %w", err)
		}
		in.storage = classes.Items
	}
	return in, nil
}

// tenantPending reports whether the Tenant, or its condition, is not available yet. Decisions stand meanwhile,
// unless the Tenant was deleted.
func (v *sliceView) tenantPending(slice *authv1beta1.ResourceSlice) bool {
	if v.tenant == nil {
		return len(slice.Status.Conditions) == 0
	}
	if v.tenant.Spec.TenantCondition == authv1beta1.TenantConditionDrained {
		return false
	}
	ready := apimeta.FindStatusCondition(v.tenant.Status.Conditions, authv1beta1.TenantReady)
	return ready == nil || ready.ObservedGeneration != v.tenant.Generation
}

// Messages for the case that the Tenant, not the ResourceSlice, is the reason.
const (
	whyNoTenant = "no Tenant found for this cluster"
	whyDrained  = "the tenant is drained"
	whyCordoned = "the tenant is cordoned"
	whyNotReady = "the Tenant is not ready: "
	whyVersion  = "the versions of Liqo are too far apart: "
)

// pauseReason returns why there are no new grants while existing grants stay, or "".
func (v *sliceView) pauseReason() string {
	switch {
	case v.tenant.Spec.TenantCondition == authv1beta1.TenantConditionCordoned:
		return whyCordoned
	case v.version != nil:
		return whyVersion + v.version.Message
	}
	return ""
}

// refusalReason returns why the ResourceSlice may have no grant at all, or "".
func (v *sliceView) refusalReason(slice *authv1beta1.ResourceSlice, caps policy.SliceCaps) string {
	if v.tenant == nil {
		return whyNoTenant
	}
	if v.tenant.Spec.TenantCondition == authv1beta1.TenantConditionDrained {
		return whyDrained
	}
	if ready := apimeta.FindStatusCondition(v.tenant.Status.Conditions, authv1beta1.TenantReady); ready == nil || ready.Status != metav1.ConditionTrue {
		reason := whyNotReady
		if ready != nil {
			reason += ready.Message
		}
		return reason
	}
	if id := slice.Spec.ConsumerClusterID; id != nil && *id != v.consumer {
		return fmt.Sprintf("it is said to be for the consumer %q in the namespace of %q", *id, v.consumer)
	}
	of := slices.DeleteFunc(slices.Clone(v.siblings), func(other authv1beta1.ResourceSlice) bool { return other.Namespace != slice.Namespace })
	if err := caps.Count(slice, of); err != nil {
		return err.Error()
	}
	return ""
}
