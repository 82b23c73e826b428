// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package resourceslice

import (
	"context"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	authv1beta1 "liqo.io/liqo/api/authentication/v1beta1"
	liqov1beta1 "liqo.io/liqo/api/core/v1beta1"
	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/names"
	"liqo.io/liqo/internal/peer"
	"liqo.io/liqo/internal/pki"
	"liqo.io/liqo/internal/policy"
)

// inNamespaceOf wakes the slices beside obj.
func (r *remoteSlices) inNamespaceOf(ctx context.Context, obj client.Object) []reconcile.Request {
	return requestsFor(ctx, r.client, client.InNamespace(obj.GetNamespace()))
}

// inNamespace wakes the slices in obj, a namespace.
func (r *remoteSlices) inNamespace(ctx context.Context, obj client.Object) []reconcile.Request {
	return requestsFor(ctx, r.client, client.InNamespace(obj.GetName()))
}

// allRequests wakes all slices.
func (r *remoteSlices) allRequests(ctx context.Context, _ client.Object) []reconcile.Request {
	return requestsFor(ctx, r.client, client.MatchingLabels{names.Replicated: "true"})
}

// requestsForBinding returns requests for the ResourceSlices without credentials whose user is a subject of a binding, by the label of replicas that
// names their origin.
func (r *remoteSlices) requestsForBinding(ctx context.Context, binding client.Object) []reconcile.Request {
	subjects := peer.Subjects(binding)
	return kube.Requests(ctx, r.client, &authv1beta1.ResourceSliceList{}, func(slice *authv1beta1.ResourceSlice) bool {
		return slice.Status.AuthParams == nil && policy.NamesUserOrGroup(subjects, pki.SliceSubject(slice.Name, slice.Labels[names.ReplicationOrigin]).CommonName)
	}, client.MatchingLabels{names.Replicated: "true"})
}

func requestsFor(ctx context.Context, c client.Reader, opts ...client.ListOption) []reconcile.Request {
	return kube.Requests(ctx, c, &authv1beta1.ResourceSliceList{}, kube.Every, opts...)
}

// versionJudged passes the ForeignClusters whose version becomes incompatible, or compatible again.
func versionJudged() predicate.Predicate {
	reason := func(obj client.Object) string {
		if c := peer.VersionRefused(obj.(*liqov1beta1.ForeignCluster)); c != nil {
			return c.Message
		}
		return ""
	}
	return predicate.Funcs{
		CreateFunc: func(e event.CreateEvent) bool { return reason(e.Object) != "" },
		UpdateFunc: func(e event.UpdateEvent) bool { return reason(e.ObjectOld) != reason(e.ObjectNew) },
		DeleteFunc: func(e event.DeleteEvent) bool { return reason(e.Object) != "" },
	}
}
