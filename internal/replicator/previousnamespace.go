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

// Who has credentials lead to another namespace may do so while the peer is away, or nobody looks. So each Secret says to which
// namespaces something was copied, and nothing stays in a former one for lack of knowing it.

// How soon a peer that answers is asked again to take away what is in a former namespace: after a failure, and after a refusal, which an API server that
// has only begun may mean for a moment, and others for ever.
const (
	formerInterval  = 15 * time.Second
	refusedInterval = 5 * time.Minute
)

// copiesIn are the namespaces of the peer to which something was copied with the Secret, sorted.
func copiesIn(secret *corev1.Secret) []string {
	text := secret.Annotations[names.ReplicatorCopiesIn]
	if text == "" {
		return nil
	}
	return strings.Split(text, ",")
}

// addFinalizer writes to a Secret to which namespaces its credentials lead and led, and puts our finalizer on it before they are used. One that is
// being deleted takes none any more.
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

// holdUsed is hold of the Secret in use, which keeps what it says of former namespaces.
func (r *reconciler) holdUsed(ctx context.Context, c *peerCredentials) error {
	return r.addFinalizer(ctx, c.secret, append(copiesIn(c.secret), c.remoteNamespace)...)
}

// leaveFormer takes away what was copied to namespaces to which the credentials lead no more. It returns when to try again, 0 for never. Of a peer that
// refuses that it is told that copies may still be there.
func (r *reconciler) leaveFormer(ctx context.Context, s *inputs) (time.Duration, error) {
	l := r.links.linkTo(string(s.peer))
	if l == nil || s.use == nil || l.pair != s.use.enginePair() {
		return 0, nil
	}
	if state := l.currentState(); !state.looked || state.failure != "" {
		return 0, nil // that it answers wakes us
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

// leaveAll takes away what a link that has ended copied for a Secret that goes: those copies, and whatever is in former namespaces. Nobody tries that
// again, so it is told that what could not be taken away may still be there.
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
