// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package replicator

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/names"
)

// givenUp reports whether the user declared the peer as lost and the peer is not alive. A peer that rejects our
// credentials counts as lost, like a peer without an answer: the local teardown does not depend on the peer.
func (s *inputs) givenUp(l *link) bool {
	if s.cluster == nil || s.cluster.Annotations[names.PermanentlyUnreachable] != "true" {
		return false
	}
	if l == nil {
		// Without credentials nothing can be reached; with some, they are tried first.
		return s.use == nil
	}
	state := l.currentState()
	return state.looked && !state.isAlive()
}

// isForgotten reports whether the user deletes all objects of a peer, credentials included, while the peer rejects the credentials: the peering
// was torn down at the peer first, and later credentials to remove the replicas will not come. after is the delay until the next check, 0 if a
// watch triggers the check.
func (s *inputs) isForgotten(l *link, forgottenAfter time.Duration, now time.Time) (is bool, after time.Duration) {
	staying := func(x corev1.Secret) bool { return x.DeletionTimestamp.IsZero() }
	if !s.removed || l == nil || len(s.secrets) == 0 || slices.ContainsFunc(s.secrets, staying) {
		return false, 0
	}
	state := l.currentState()
	if !state.looked || state.failure != "" || state.refusedSince.IsZero() {
		return false, 0
	}
	remaining := state.refusedSince.Add(forgottenAfter).Sub(now)
	return remaining <= 0, max(remaining, 0)
}

// leaveForgotten calls giveUp for a peering that was torn down at the peer first, with an event on the ForeignCluster: events in the namespaces
// are rejected during their deletion.
func (r *reconciler) leaveForgotten(ctx context.Context, s *inputs) (time.Duration, error) {
	if l := r.links.linkTo(string(s.peer)); l != nil && s.cluster != nil {
		r.recorder.Eventf(s.cluster, nil, corev1.EventTypeWarning, reasonCopiesLeft, "Replicate", "%s", kube.Note(fmt.Sprintf(
			"The tenant namespace is being deleted, and the provider refuses this cluster: replicas in its namespace %s are left to its administrator: %s",
			l.pair.Remote, l.currentState().refusal)))
	}
	return r.giveUp(ctx, s)
}

// giveUp performs the local teardown without the peer: it removes the finalizers of objects being deleted, and of all others if the
// credentials are being deleted, or gone. The result is the delay until the next check, 0 if a watch triggers the check.
func (r *reconciler) giveUp(ctx context.Context, s *inputs) (time.Duration, error) {
	staying := slices.ContainsFunc(s.secrets, func(x corev1.Secret) bool { return x.DeletionTimestamp.IsZero() })
	condition := s.lostCondition(r.links.linkTo(string(s.peer)))
	if !staying {
		r.links.removeLink(string(s.peer))
	}
	var after time.Duration
	for _, namespace := range s.namespaces {
		finalizing, err := r.listHeld(ctx, namespace)
		if err != nil {
			return 0, err
		}
		for _, obj := range finalizing {
			if staying && obj.GetDeletionTimestamp().IsZero() {
				after = deadInterval
				continue
			}
			if err := letGo(ctx, r.client, obj); err != nil {
				return 0, err
			}
			r.log.Info("released an object whose peer was given up", "peer", s.peer, "kind", obj.GetObjectKind().GroupVersionKind().Kind,
				"object", client.ObjectKeyFromObject(obj))
		}
	}
	for i := range s.secrets {
		if s.secrets[i].DeletionTimestamp.IsZero() {
			continue
		}
		if err := r.letSecretGo(ctx, &s.secrets[i]); err != nil {
			return 0, err
		}
	}
	r.recordProblems(s, r.links.linkTo(string(s.peer)))
	return after, r.writeCondition(ctx, s.cluster, condition, nil)
}

// listHeld lists the objects of a namespace with our finalizer, from the API server.
func (r *reconciler) listHeld(ctx context.Context, namespace string) ([]client.Object, error) {
	var out []client.Object
	for _, res := range resources {
		list := &metav1.PartialObjectMetadataList{}
		list.SetGroupVersionKind(res.newList().GroupVersionKind())
		if err := r.live.List(ctx, list, client.InNamespace(namespace)); err != nil {
			return nil, fmt.Errorf("listing %s of %s: %w", res.plural, namespace, err)
		}
		for i := range list.Items {
			obj := &list.Items[i]
			obj.SetGroupVersionKind(res.gvk)
			if controllerutil.ContainsFinalizer(obj, names.ReplicatorFinalizer) {
				out = append(out, obj)
			}
		}
	}
	return out, nil
}
