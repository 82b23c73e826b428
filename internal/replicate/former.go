// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package replicate

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/names"
)

// Who has credentials lead to another namespace may do so while the peer is away, or nobody looks. So each Secret says to which
// namespaces something was copied, and nothing stays in a former one for lack of knowing it.

// How soon a peer that answers is asked again to take away what is in a former namespace: after a failure, and after a refusal, which an API server that
// has only begun may mean for a moment.
const (
	formerInterval  = 15 * time.Second
	refusedInterval = time.Hour
)

// copiesIn are the namespaces of the peer to which something was copied with the Secret, sorted.
func copiesIn(secret *corev1.Secret) []string {
	text := secret.Annotations[names.ReplicatorCopiesIn]
	if text == "" {
		return nil
	}
	return strings.Split(text, ",")
}

// hold puts our finalizer on a Secret before its credentials are used, and to which namespaces these lead and led.
func (r *reconciler) hold(ctx context.Context, secret *corev1.Secret, namespaces ...string) error {
	slices.Sort(namespaces)
	text := strings.Join(slices.Compact(namespaces), ",")
	if controllerutil.ContainsFinalizer(secret, names.ReplicatorSecretFinalizer) && secret.Annotations[names.ReplicatorCopiesIn] == text {
		return nil
	}
	before := secret.DeepCopy()
	controllerutil.AddFinalizer(secret, names.ReplicatorSecretFinalizer)
	if secret.Annotations == nil {
		secret.Annotations = map[string]string{}
	}
	secret.Annotations[names.ReplicatorCopiesIn] = text
	patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	if err := r.client.Patch(ctx, secret, patch); err != nil {
		return fmt.Errorf("adding the finalizer to Secret %s/%s: %w", secret.Namespace, secret.Name, err)
	}
	return nil
}

// holdUsed is hold of the Secret in use, which keeps what it says of former namespaces.
func (r *reconciler) holdUsed(ctx context.Context, c *credentials) error {
	return r.hold(ctx, c.secret, append(copiesIn(c.secret), c.remoteNamespace)...)
}

// leaveFormer takes away what was copied to namespaces to which the credentials lead no more. It returns when to try again, 0 for never. Of a peer that
// refuses that it is told that copies may still be there.
func (r *reconciler) leaveFormer(ctx context.Context, s *situation) (time.Duration, error) {
	l := r.links.get(string(s.peer))
	if l == nil || s.use == nil || s.use.going() || l.pair != s.use.pair() {
		return 0, nil
	}
	if state := l.state(); !state.looked || state.failure != "" {
		return 0, nil // that it answers wakes us
	}
	var after time.Duration
	stay := []string{s.use.remoteNamespace}
	for _, namespace := range copiesIn(s.use.secret) {
		if namespace == s.use.remoteNamespace {
			continue
		}
		err := r.withdraw(ctx, l, namespace, everything())
		if err == nil {
			continue
		}
		stay, after = append(stay, namespace), formerInterval
		if apierrors.IsForbidden(err) || apierrors.IsUnauthorized(err) {
			after = refusedInterval
			r.copiesLeft(s.use.secret, l, namespace, err)
		}
		r.log.Info("taking away copies in a former namespace failed", "peer", s.peer, "namespace", namespace, "error", err.Error())
	}
	return after, r.hold(ctx, s.use.secret, stay...)
}

func (r *reconciler) copiesLeft(secret *corev1.Secret, l *link, namespace string, err error) {
	r.recorder.Eventf(secret, nil, corev1.EventTypeWarning, reasonCopiesLeft, "Replicate", "%s",
		kube.Note(fmt.Sprintf("copies of this cluster's objects may be left in namespace %s of %s, for its administrator to remove: %s", namespace, l.ends.peer, err)))
}
