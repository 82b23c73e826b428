// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package replicator

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/names"
)

// Credentials may be changed to another namespace while the peer is away, or this process is down. To prevent orphaned replicas in a
// previous namespace, each Secret records the namespaces with replicas.

// Retry intervals for removing replicas in a previous namespace of an answering peer: after a failure, and after a rejection. A rejection is
// temporary for a starting API server and may be permanent for others.
const (
	formerInterval  = 15 * time.Second
	refusedInterval = 5 * time.Minute
)

// copiesIn returns the namespaces of the peer with replicas created by the Secret, sorted.
func copiesIn(secret *corev1.Secret) []string {
	text := secret.Annotations[names.ReplicatorCopiesIn]
	if text == "" {
		return nil
	}
	return strings.Split(text, ",")
}

// addFinalizer records the present and previous namespaces of the credentials in the Secret, and adds our finalizer before their use. A Secret
// being deleted accepts no finalizer any more.
func (r *reconciler) addFinalizer(ctx context.Context, secret *corev1.Secret, namespaces ...string) error {
	slices.Sort(namespaces)
	held := secret.DeepCopy()
	added := secret.DeletionTimestamp.IsZero() && controllerutil.AddFinalizer(held, names.ReplicatorSecretFinalizer)
	metav1.SetMetaDataAnnotation(&held.ObjectMeta, names.ReplicatorCopiesIn, strings.Join(slices.Compact(namespaces), ","))
	if !added && held.Annotations[names.ReplicatorCopiesIn] == secret.Annotations[names.ReplicatorCopiesIn] {
		return nil
	}
	if err := r.client.Patch(ctx, held, client.MergeFromWithOptions(secret, client.MergeFromWithOptimisticLock{})); err != nil {
		return fmt.Errorf("writing to Secret %s/%s that it is in use: %w", secret.Namespace, secret.Name, err)
	}
	*secret = *held
	return nil
}

// holdUsed adds the finalizer to the Secret in use, and keeps its record of previous namespaces.
func (r *reconciler) holdUsed(ctx context.Context, c *peerCredentials) error {
	return r.addFinalizer(ctx, c.secret, append(copiesIn(c.secret), c.remoteNamespace)...)
}

// leaveFormer removes replicas in previous namespaces of the credentials, and returns the delay until the next attempt, 0 for none. If the peer
// rejects the removal, an event reports that replicas may remain.
func (r *reconciler) leaveFormer(ctx context.Context, s *inputs) (time.Duration, error) {
	l := r.links.linkTo(string(s.peer))
	if l == nil || s.use == nil || l.pair != s.use.enginePair() {
		return 0, nil
	}
	if state := l.currentState(); !state.looked || state.failure != "" {
		return 0, nil // the next answer of the peer triggers a run
	}
	var after time.Duration
	stay := []string{s.use.remoteNamespace}
	for _, namespace := range copiesIn(s.use.secret) {
		if namespace == s.use.remoteNamespace {
			continue
		}
		err := r.withdrawCopies(ctx, l, namespace, allCopies())
		if err == nil {
			continue
		}
		stay = append(stay, namespace)
		if apierrors.IsForbidden(err) || apierrors.IsUnauthorized(err) {
			after = soonerOf(after, refusedInterval)
			if _, worse := s.problems[s.use.secret.UID]; !worse {
				s.problems[s.use.secret.UID] = copiesLeft(l, namespace, err)
			}
		} else {
			after = soonerOf(after, formerInterval)
			r.log.Info("taking away copies in a former namespace failed", "peer", s.peer, "namespace", namespace, "error", err.Error())
		}
	}
	return after, r.addFinalizer(ctx, s.use.secret, stay...)
}

// leaveAll removes the replicas of a stopped link for a Secret being deleted, also in previous namespaces. Without a retry, an
// event reports which replicas may remain.
func (r *reconciler) leaveAll(ctx context.Context, secret *corev1.Secret, l *link, all []copySet) {
	for _, namespace := range slices.Compact(slices.Sorted(slices.Values(append(copiesIn(secret), l.pair.Remote)))) {
		which := allCopies()
		if namespace == l.pair.Remote {
			which = all
		}
		if err := r.withdrawCopies(ctx, l, namespace, which); err != nil {
			left := copiesLeft(l, namespace, err)
			r.recorder.Eventf(secret, nil, corev1.EventTypeWarning, left.reason, "Replicate", "%s", kube.Note(left.message))
		}
	}
}

func copiesLeft(l *link, namespace string, err error) problem {
	return problem{reasonCopiesLeft, fmt.Sprintf("copies of this cluster's objects may be left in namespace %s of %s, for its administrator to remove: %s", namespace, l.ends.peer, err)}
}
