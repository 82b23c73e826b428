// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package resourceslice

import (
	"context"
	"fmt"
	"maps"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	authv1beta1 "liqo.io/liqo/api/authentication/v1beta1"
	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/names"
	"liqo.io/liqo/internal/peer"
	"liqo.io/liqo/internal/policy"
)

// grantTotals are the grants of ResourceSlices, including grants that are not yet in the cache (assume).
type grantTotals struct {
	mu sync.Mutex
	of map[types.UID]corev1.ResourceList
}

// Take reserves requested for a ResourceSlice if the caps permit. others are all ResourceSlices under the caps.
func (g *grantTotals) Take(caps policy.SliceCaps, slice *authv1beta1.ResourceSlice, requested corev1.ResourceList, others []authv1beta1.ResourceSlice) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.of == nil {
		g.of = map[types.UID]corev1.ResourceList{}
	}
	// An existing grant takes precedence over younger ones; an increase must fit into the rest.
	keeps := policy.FindShortages(requested, nil, g.grantedTo(slice)) == nil
	tenant, provider, known := corev1.ResourceList{}, corev1.ResourceList{}, map[types.UID]bool{slice.UID: true}
	for i := range others {
		other := &others[i]
		known[other.UID] = true
		if other.UID == slice.UID || keeps && !policy.ComesBefore(other, slice) {
			continue
		}
		has := g.grantedTo(other)
		policy.AddResources(provider, has)
		if other.Namespace == slice.Namespace {
			policy.AddResources(tenant, has)
		}
	}
	maps.DeleteFunc(g.of, func(uid types.UID, _ corev1.ResourceList) bool { return !known[uid] })
	if err := caps.CheckSums(requested, tenant, provider); err != nil {
		g.of[slice.UID] = corev1.ResourceList{}
		return err
	}
	g.of[slice.UID] = requested.DeepCopy()
	return nil
}

// Drop releases the reservation of a rejected ResourceSlice: its status in the cache counts until the cache
// contains the rejection.
func (g *grantTotals) Drop(slice *authv1beta1.ResourceSlice) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.of, slice.UID)
}

func (g *grantTotals) grantedTo(slice *authv1beta1.ResourceSlice) corev1.ResourceList {
	if list, ok := g.of[slice.UID]; ok {
		return list
	}
	if policy.IsAccepted(slice, authv1beta1.ResourceSliceConditionTypeResources) {
		return slice.Status.Resources
	}
	return nil
}

// slicesOfTenant returns the ResourceSlices under the caps: of the tenant, or of all tenants if the provider bounds their sum. They are
// shared with the cache.
func (r *remoteSlices) slicesOfTenant(ctx context.Context, namespace string) ([]authv1beta1.ResourceSlice, error) {
	caps := r.options.Caps
	if caps.Slices <= 0 && !caps.Bounded() {
		return nil, nil
	}
	options := []client.ListOption{client.MatchingLabels{names.Replicated: "true"}, client.UnsafeDisableDeepCopy}
	if len(caps.Provider) == 0 {
		options = append(options, client.InNamespace(namespace))
	}
	var all authv1beta1.ResourceSliceList
	if err := r.client.List(ctx, &all, options...); err != nil {
		return nil, fmt.Errorf("listing slices: %w", err)
	}
	return all.Items, nil
}

// requestsForDenied returns the ResourceSlices that may be granted once another is deleted or shrinks. The rest, however many,
// is not reconciled.
func (r *remoteSlices) requestsForDenied(ctx context.Context, obj client.Object) []reconcile.Request {
	options := []client.ListOption{client.MatchingLabels{names.Replicated: "true"}}
	if len(r.options.Caps.Provider) == 0 {
		options = append(options, client.InNamespace(obj.GetNamespace()))
	}
	return kube.Requests(ctx, r.client, &authv1beta1.ResourceSliceList{}, func(slice *authv1beta1.ResourceSlice) bool {
		return policy.IsDenied(slice, authv1beta1.ResourceSliceConditionTypeResources)
	}, options...)
}

// leavesRoom passes the events after which another ResourceSlice may be granted more.
func leavesRoom() predicate.Predicate {
	return predicate.And(predicate.NewPredicateFuncs(peer.IsReplica), predicate.Funcs{
		CreateFunc:  func(event.CreateEvent) bool { return false },
		GenericFunc: func(event.GenericEvent) bool { return false },
		UpdateFunc: func(e event.UpdateEvent) bool {
			before, after := e.ObjectOld.(*authv1beta1.ResourceSlice), e.ObjectNew.(*authv1beta1.ResourceSlice)
			had := policy.IsAccepted(before, authv1beta1.ResourceSliceConditionTypeAuthentication)
			has := policy.IsAccepted(after, authv1beta1.ResourceSliceConditionTypeAuthentication)
			return had && !has || policy.FindShortages(before.Status.Resources, nil, after.Status.Resources) != nil && !equality.Semantic.DeepEqual(before.Status.Resources, after.Status.Resources)
		},
	})
}
