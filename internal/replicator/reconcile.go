// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package replicator

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	liqov1beta1 "liqo.io/liqo/api/core/v1beta1"
	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/multicluster"
	"liqo.io/liqo/internal/names"
)

// drainInterval is the retry interval of a drain, in case no event triggers it.
const drainInterval = 2 * time.Second

// deadInterval is the interval for checking remaining objects of a peer that is lost or has no credentials any more: no
// watch covers them.
const deadInterval = 15 * time.Second

// inputs are the input of the decisions about one peer.
type inputs struct {
	peer       liqov1beta1.ClusterID
	namespaces []string
	// removed: all of these namespaces are being deleted.
	removed bool
	secrets []corev1.Secret
	cluster *liqov1beta1.ForeignCluster

	use      *peerCredentials
	problems map[types.UID]problem
	// stranded are orphans that wait for credentials to have their replicas removed.
	stranded []client.Object
}

// Reconcile adapts the link of one peer to the peer's Secrets.
func (r *reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	after, err := r.reconcilePeer(ctx, liqov1beta1.ClusterID(req.Name))
	verdict := kube.Classify(err)
	if verdict.Failed() {
		return reconcile.Result{}, err
	}
	return reconcile.Result{RequeueAfter: soonerOf(after, verdict.After)}, nil
}

// soonerOf is the shorter of two times, 0 for never.
func soonerOf(a, b time.Duration) time.Duration {
	if a == 0 || b == 0 {
		return a + b
	}
	return min(a, b)
}

// reconcilePeer returns when to look again, 0 for when something changes.
func (r *reconciler) reconcilePeer(ctx context.Context, id liqov1beta1.ClusterID) (time.Duration, error) {
	s, err := r.gatherInputs(ctx, id)
	if err != nil {
		return 0, err
	}
	if s.givenUp(r.links.linkTo(string(id))) {
		return r.giveUp(ctx, s)
	}
	refused, timeout := s.isForgotten(r.links.linkTo(string(id)), r.options.ForgottenAfter, time.Now())
	if refused {
		return r.leaveForgotten(ctx, s)
	}
	hadLink := r.links.linkTo(string(id)) != nil
	connected := r.connectPeer(ctx, s)
	if reason, ok := kube.InvalidReason(connected); ok && s.use != nil {
		s.problems[s.use.secret.UID] = problem{reason, errors.Unwrap(connected).Error()}
	}
	after, drained := r.drainPeer(ctx, s)
	again, left := r.leaveFormer(ctx, s)
	l := r.links.linkTo(string(id))
	r.recordProblems(s, l)
	var later time.Duration
	var stranded error
	if lost := l == nil && len(s.secrets) == 0; lost && s.cluster != nil && (hadLink || len(s.cluster.Status.Conditions) > 0) { // the peer had credentials before
		later, stranded = r.findStranded(ctx, s)
	}
	misbehaves, forgotten := l.misbehaviourCondition()
	return soonerOf(soonerOf(soonerOf(soonerOf(after, again), later), forgotten), timeout),
		errors.Join(connected, drained, left, stranded, r.writeCondition(ctx, s.cluster, s.peerCondition(l), misbehaves))
}

// findStranded finds the objects that wait for credentials of a peer without credentials, and returns the delay until the next check,
// 0 for none.
func (r *reconciler) findStranded(ctx context.Context, s *inputs) (time.Duration, error) {
	for _, namespace := range s.namespaces {
		finalizing, err := r.listHeld(ctx, namespace)
		if apierrors.IsForbidden(err) {
			continue // the namespace is being deleted, and our permissions are already gone
		}
		if err != nil {
			return 0, err
		}
		s.stranded = append(s.stranded, finalizing...)
	}
	if len(s.stranded) == 0 {
		return 0, nil
	}
	return deadInterval, nil
}

func (r *reconciler) gatherInputs(ctx context.Context, id liqov1beta1.ClusterID) (*inputs, error) {
	s := &inputs{peer: id}
	var namespaces corev1.NamespaceList
	if err := r.client.List(ctx, &namespaces, client.MatchingLabels{names.RemoteClusterID: string(id), names.TenantNamespace: "true"}); err != nil {
		return nil, fmt.Errorf("listing tenant namespaces: %w", err)
	}
	s.removed = len(namespaces.Items) > 0
	for i := range namespaces.Items {
		name := namespaces.Items[i].Name
		s.removed = s.removed && !namespaces.Items[i].DeletionTimestamp.IsZero()
		s.namespaces = append(s.namespaces, name)
		var secrets corev1.SecretList
		if err := r.secrets.List(ctx, &secrets, client.InNamespace(name)); err != nil {
			return nil, fmt.Errorf("listing Secrets of %s: %w", name, err)
		}
		s.secrets = append(s.secrets, secrets.Items...)
	}
	var cluster liqov1beta1.ForeignCluster
	err := r.client.Get(ctx, types.NamespacedName{Name: string(id)}, &cluster)
	switch {
	case err == nil:
		s.cluster = &cluster
	case client.IgnoreNotFound(err) != nil:
		return nil, fmt.Errorf("reading ForeignCluster %s: %w", id, err)
	}
	s.use, s.problems = chooseCredentials(id, s.secrets)
	return s, nil
}

// connectPeer starts, changes or stops the link.
func (r *reconciler) connectPeer(ctx context.Context, s *inputs) error {
	l := r.links.linkTo(string(s.peer))
	switch {
	case s.use != nil && l == nil:
		return r.beginLink(ctx, s)
	case s.use != nil:
		return r.changeCredentials(ctx, s, l)
	case l == nil:
		return nil
	case s.hasBrokenSecret(l):
		// The Secret in use became invalid: its previous content still applies.
		l.draining.Store(s.isDeletingSecret(l))
		return nil
	}
	// Without permissions in the namespace no cleanup is possible.
	if err := r.forgetLink(ctx, l); err != nil && !apierrors.IsForbidden(err) {
		return err
	}
	r.links.removeLink(string(s.peer))
	return nil
}

// hasBrokenSecret reports whether the Secret of a link still exists, although it is invalid now.
func (s *inputs) hasBrokenSecret(l *link) bool { return s.secretOf(l) != nil }

func (s *inputs) isDeletingSecret(l *link) bool { return !s.secretOf(l).DeletionTimestamp.IsZero() }

func (s *inputs) secretOf(l *link) *corev1.Secret {
	i := slices.IndexFunc(s.secrets, func(x corev1.Secret) bool { return client.ObjectKeyFromObject(&x) == l.secret })
	if i < 0 {
		return nil
	}
	return &s.secrets[i]
}

func (r *reconciler) beginLink(ctx context.Context, s *inputs) error {
	secret := s.use.secret
	if s.use.isDeleting() {
		if hasFinalizer, err := r.stillHeld(ctx, secret); err != nil || !hasFinalizer {
			return err
		}
	}
	logProcessing(client.ObjectKeyFromObject(secret))
	if err := r.holdUsed(ctx, s.use); err != nil {
		return err
	}
	l, err := r.dialPeer(clusterPair{local: r.options.ClusterID, peer: s.peer, version: r.options.Version}, s.use)
	if err != nil {
		return err
	}
	if err := r.links.addLink(string(s.peer), l); err != nil {
		l.stopLink()
		return err
	}
	if !s.use.isDeleting() {
		r.recorder.Eventf(secret, nil, corev1.EventTypeNormal, reasonStarted, "Replicate", "objects of this namespace are replicated to namespace %s of %s", s.use.remoteNamespace, s.peer)
	}
	return nil
}

func (r *reconciler) changeCredentials(ctx context.Context, s *inputs, l *link) error {
	if err := r.holdUsed(ctx, s.use); err != nil {
		return err
	}
	if l.pair != s.use.enginePair() {
		return r.moveNamespace(ctx, s, l)
	}
	changed, err := l.followCredentials(s.use)
	if errors.Is(err, multicluster.ErrOtherServer) {
		r.links.removeLink(string(s.peer))
		return r.beginLink(ctx, s)
	}
	if err != nil {
		return fmt.Errorf("changing the credentials: %w", err)
	}
	if changed {
		logProcessing(client.ObjectKeyFromObject(s.use.secret))
		r.recorder.Eventf(s.use.secret, nil, corev1.EventTypeNormal, reasonCredentials, "Replicate", "replication to %s continues with the new content of this Secret", s.peer)
	}
	return nil
}

// moveNamespace replaces a link by a link between other namespaces. The replicas in an abandoned namespace are removed first, because only the
// previous credentials may have the permission. leaveFormer retries the rest.
func (r *reconciler) moveNamespace(ctx context.Context, s *inputs, l *link) error {
	r.links.removeLink(string(s.peer))
	if former := l.pair.Remote; former != s.use.remoteNamespace {
		namespaces := append(slices.DeleteFunc(copiesIn(s.use.secret), func(namespace string) bool { return namespace == former }), s.use.remoteNamespace)
		if err := r.withdrawCopies(ctx, l, former, allCopies()); err != nil {
			namespaces = append(namespaces, former)
		}
		if err := r.addFinalizer(ctx, s.use.secret, namespaces...); err != nil {
			return err
		}
	}
	return r.beginLink(ctx, s)
}

// copySet are the replicas of one object of a kind, or of the whole kind without a name.
type copySet struct {
	resource
	name string
}

func allCopies() []copySet {
	out := make([]copySet, 0, len(resources))
	for _, res := range resources {
		out = append(out, copySet{resource: res})
	}
	return out
}

// copiesOf returns the replicas of objects, as returned by held.
func copiesOf(objects []client.Object) []copySet {
	out := make([]copySet, 0, len(objects))
	for _, obj := range objects {
		if res, ok := resourceOf(obj); ok {
			out = append(out, copySet{res, obj.GetName()})
		}
	}
	return out
}

// withdrawCopies deletes copies in a namespace of the peer, if they are ours.
func (r *reconciler) withdrawCopies(ctx context.Context, l *link, namespace string, all []copySet) error {
	ctx, cancel := context.WithTimeout(ctx, r.options.HealthTimeout)
	defer cancel()
	c, err := client.New(l.conn.Config(), client.Options{Mapper: newMapper()})
	if err != nil {
		return fmt.Errorf("connecting: %w", err)
	}
	ownLabels := client.MatchingLabels{names.Replicated: "true", names.ReplicationOrigin: string(l.ends.local)}
	for _, which := range all {
		options := []client.DeleteAllOfOption{client.InNamespace(namespace), ownLabels}
		if which.name != "" {
			options = append(options, client.MatchingFields{metav1.ObjectNameField: which.name})
		}
		if err := c.DeleteAllOf(ctx, which.newObject(), options...); err != nil {
			return fmt.Errorf("deleting %s: %w", which.plural, err)
		}
	}
	return nil
}

// drainPeer releases the Secrets being deleted: at once if another took over, else when no object waits for the removal
// of a replica. The result is the delay until the next check.
func (r *reconciler) drainPeer(ctx context.Context, s *inputs) (time.Duration, error) {
	var after time.Duration
	for i := range s.secrets {
		secret := &s.secrets[i]
		if secret.DeletionTimestamp.IsZero() || !controllerutil.ContainsFinalizer(secret, names.ReplicatorSecretFinalizer) {
			continue
		}
		if s.use == nil || s.use.isDeleting() {
			finalizing, err := r.listHeld(ctx, secret.Namespace)
			if err != nil {
				return 0, err
			}
			if needed := slices.DeleteFunc(slices.Clone(finalizing), isDisposable); len(needed) > 0 {
				s.problems[secret.UID] = waitingFor(needed)
				after = drainInterval
				continue
			}
			if err := r.endLink(ctx, s, secret, finalizing); err != nil {
				return 0, err
			}
		} else if err := r.addFinalizer(ctx, s.use.secret, slices.Concat(copiesIn(s.use.secret), copiesIn(secret), []string{s.use.remoteNamespace})...); err != nil {
			return 0, err
		}
		if err := r.letSecretGo(ctx, secret); err != nil {
			return 0, err
		}
	}
	return after, nil
}

// endLink stops the link of a Secret permanently. The objects still held are disposable: their replicas are removed if the peer
// permits, and are recreated with the next credentials. The link of another Secret is neither stopped nor used.
func (r *reconciler) endLink(ctx context.Context, s *inputs, secret *corev1.Secret, finalizing []client.Object) error {
	if l := r.links.linkTo(string(s.peer)); l != nil && l.secret == client.ObjectKeyFromObject(secret) {
		r.links.removeLink(string(s.peer))
		r.leaveAll(ctx, secret, l, copiesOf(finalizing))
	}
	for _, obj := range finalizing {
		if err := letGo(ctx, r.client, obj); err != nil {
			return err
		}
	}
	return nil
}

func waitingFor(finalizing []client.Object) problem {
	first := finalizing[0]
	return problem{reasonDraining, fmt.Sprintf("the credentials are needed until the replicated objects of this namespace are deleted: %s %s", kindOf(first), first.GetName())}
}

func kindOf(obj client.Object) string { return obj.GetObjectKind().GroupVersionKind().Kind }

// stillHeld reports whether a Secret being deleted has our finalizer, read from the API server: the cache may be behind a
// removal of the finalizer by this process.
func (r *reconciler) stillHeld(ctx context.Context, secret *corev1.Secret) (bool, error) {
	var now corev1.Secret
	if err := r.live.Get(ctx, client.ObjectKeyFromObject(secret), &now); err != nil {
		if client.IgnoreNotFound(err) == nil {
			return false, nil
		}
		return false, fmt.Errorf("reading Secret %s/%s: %w", secret.Namespace, secret.Name, err)
	}
	return now.UID == secret.UID && controllerutil.ContainsFinalizer(&now, names.ReplicatorSecretFinalizer), nil
}

func (r *reconciler) letSecretGo(ctx context.Context, secret *corev1.Secret) error {
	patched := secret.DeepCopy()
	if !controllerutil.RemoveFinalizer(patched, names.ReplicatorSecretFinalizer) {
		return nil
	}
	patch := client.MergeFromWithOptions(secret, client.MergeFromWithOptimisticLock{})
	if err := client.IgnoreNotFound(r.client.Patch(ctx, patched, patch)); err != nil {
		return fmt.Errorf("removing the finalizer of Secret %s/%s: %w", secret.Namespace, secret.Name, err)
	}
	return nil
}

// forgetLink handles the Secret of a link without credentials. An existing Secret, or its namespace, lost the
// labels, and our finalizer would be orphaned.
func (r *reconciler) forgetLink(ctx context.Context, l *link) error {
	var secret corev1.Secret
	if err := r.live.Get(ctx, l.secret, &secret); err != nil {
		if client.IgnoreNotFound(err) == nil {
			return nil
		}
		return fmt.Errorf("reading Secret %s: %w", l.secret, err)
	}
	return r.letSecretGo(ctx, &secret)
}
