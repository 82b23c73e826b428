// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package replicator

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/multicluster"
	"liqo.io/liqo/internal/names"
)

// Reasons of the events on replicated objects.
const (
	reasonNameTaken      = "NameTakenAtPeer"
	reasonStatusTooLarge = "StatusTooLarge"
	reasonInvalidStatus  = "InvalidStatus"
	reasonInvalidAtPeer  = "InvalidAtPeer"
)

// engineKinds returns the kinds that the engine replicates.
func (l *link) engineKinds(workers int) []multicluster.Kind {
	out := make([]multicluster.Kind, 0, len(resources))
	for _, res := range resources {
		k := &reflection{link: l, resource: res}
		out = append(out, multicluster.Kind{
			Name:    res.plural,
			Local:   []multicluster.Source{{Object: res.newObject(), Labels: names.Replicated + "!=true"}},
			Remote:  []multicluster.Source{{Object: res.newObject(), Labels: names.Replicated + "=true," + names.ReplicationOrigin + "=" + string(l.ends.local)}},
			Workers: workers,
			Sync:    k.syncItem,
		})
	}
	return out
}

// reflection replicates one kind.
type reflection struct {
	*link
	resource resource
}

func (k *reflection) syncItem(ctx context.Context, it *multicluster.Item) error {
	local, err := k.readCached(it.Local, it.Name)
	if err != nil {
		return err
	}
	copied, err := k.readCached(it.Remote, it.Name)
	if err != nil {
		return err
	}
	err = k.applyCopy(ctx, it, local, copied)
	key := k.resource.plural + "/" + it.Name
	k.recordRefusal(key, err)
	k.recordRejection(key, err)
	if reason, ok := kube.InvalidReason(err); ok && local != nil {
		k.recorder.Eventf(local, nil, corev1.EventTypeWarning, reason, "Replicate", "%s", kube.Note(err.Error()))
	}
	return err
}

func (k *reflection) applyCopy(ctx context.Context, it *multicluster.Item, local, copied *unstructured.Unstructured) error {
	switch k.ends.decideStep(local, copied, k.draining.Load()) {
	case push:
		return k.pushCopy(ctx, it, local, copied)
	case withdraw:
		return k.ignoreRefusal(ctx, it, local, k.removeCopy(ctx, it, copied))
	case loosen:
		return k.ignoreRefusal(ctx, it, local, k.releaseLocal(ctx, it, local))
	case reap:
		return k.deleteOrphan(ctx, it, copied)
	}
	return nil
}

func (k *reflection) readCached(cluster multicluster.Cluster, name string) (*unstructured.Unstructured, error) {
	u := k.resource.newObject()
	found, err := cluster.Get(name, u)
	if err != nil {
		return nil, fmt.Errorf("reading %s %s/%s: %w", k.resource.plural, cluster.Namespace, name, err)
	}
	if !found {
		return nil, nil
	}
	return u, nil
}

// readLive reads from the API server: a cached absence must be confirmed before a deletion.
func (k *reflection) readLive(ctx context.Context, cluster multicluster.Cluster, name string) (*unstructured.Unstructured, error) {
	u := k.resource.newObject()
	err := cluster.Client().Get(ctx, types.NamespacedName{Namespace: cluster.Namespace, Name: name}, u)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading %s %s/%s: %w", k.resource.plural, cluster.Namespace, name, err)
	}
	return u, nil
}

// pushCopy updates the replica from local, and local's status from the replica.
func (k *reflection) pushCopy(ctx context.Context, it *multicluster.Item, local, copied *unstructured.Unstructured) error {
	if err := k.addFinalizer(ctx, it, &local); err != nil {
		return err
	}
	if copied == nil {
		if err := k.checkNameFree(ctx, it); err != nil {
			return err
		}
	} else if !copied.GetDeletionTimestamp().IsZero() {
		return kube.Wait(0, "the copy is being deleted, and will be recreated")
	}
	applied, err := it.Remote.Apply(ctx, k.ends.copyOf(local))
	if err != nil {
		if apierrors.IsInvalid(err) {
			return kube.Invalid(reasonInvalidAtPeer, err)
		}
		return fmt.Errorf("writing the copy: %w", classifyAnswer(err))
	}
	if copied == nil {
		return nil
	}
	if applied == nil { // otherwise copied is outdated, and its next event triggers the comparison
		if err := k.removeForeignFields(ctx, it, local, copied); err != nil {
			return err
		}
	}
	return k.statusBack(ctx, it, local, copied)
}

// removeForeignFields removes fields of other writers from the spec of the replica: an apply removes only fields written by this
// process. local is confirmed by the API server first, because a new leader may have an older cache than its predecessor.
func (k *reflection) removeForeignFields(ctx context.Context, it *multicluster.Item, local, copied *unstructured.Unstructured) error {
	if !removeExtraFields(specOf(copied.DeepCopy()), specOf(k.ends.copyOf(local))) {
		return nil
	}
	live, err := k.readLive(ctx, it.Local, it.Name)
	if err != nil {
		return err
	}
	if live == nil || live.GetUID() != local.GetUID() {
		return kube.Wait(0, "the object was just deleted, and its watch event is on the way")
	}
	pruned := copied.DeepCopy()
	if !removeExtraFields(specOf(pruned), specOf(k.ends.copyOf(live))) {
		return nil
	}
	patch := client.MergeFromWithOptions(copied, client.MergeFromWithOptimisticLock{})
	if err := it.Remote.Client().Patch(ctx, pruned, patch); err != nil {
		return fmt.Errorf("removing fields of another writer from the copy: %w", classifyAnswer(err))
	}
	return nil
}

// addFinalizer puts our finalizer on local, before anything is made at the peer.
func (k *reflection) addFinalizer(ctx context.Context, it *multicluster.Item, local **unstructured.Unstructured) error {
	if controllerutil.ContainsFinalizer(*local, names.ReplicatorFinalizer) {
		return nil
	}
	held := (*local).DeepCopy()
	controllerutil.AddFinalizer(held, names.ReplicatorFinalizer)
	patch := client.MergeFromWithOptions(*local, client.MergeFromWithOptimisticLock{})
	if err := it.Local.Client().Patch(ctx, held, patch); err != nil {
		return fmt.Errorf("adding the finalizer: %w", err)
	}
	// If the peer is declared as lost, this object must be released again.
	k.changed()
	*local = held
	return nil
}

// checkNameFree verifies that the name is free at the peer: a foreign object is never taken over.
func (k *reflection) checkNameFree(ctx context.Context, it *multicluster.Item) error {
	remote, err := k.readLive(ctx, it.Remote, it.Name)
	switch {
	case err != nil:
		return classifyAnswer(err)
	case remote == nil:
		return nil
	case k.ends.isCopy(remote):
		return kube.Wait(0, "the copy was just created, and its watch event is pending")
	}
	return kube.Invalid(reasonNameTaken, fmt.Errorf("the peer has a %s named %s of its own", k.resource.gvk.Kind, it.Name))
}

func (k *reflection) statusBack(ctx context.Context, it *multicluster.Item, local, copied *unstructured.Unstructured) error {
	updated, err := statusBack(local, copied)
	if err != nil {
		return kube.Invalid(reasonStatusTooLarge, err)
	}
	if updated == nil {
		return nil
	}
	allowed, lasting := k.pace.allowCopy(k.resource.plural + "/" + local.GetName())
	if lasting {
		k.misbehaviours.Report(multicluster.ReasonTooManyStatuses, fmt.Sprintf("the status of the %s %s changes all the time", k.resource.gvk.Kind, local.GetName()))
	}
	if !allowed {
		return kube.Wait(statusInterval, "the status was written a moment ago")
	}
	err = it.Local.UpdateStatus(ctx, updated)
	if apierrors.IsInvalid(err) {
		return kube.Invalid(reasonInvalidStatus, fmt.Errorf("the peer's status is not acceptable: %w", err))
	}
	if err != nil {
		return fmt.Errorf("writing the status that came back: %w", err)
	}
	return nil
}

// removeCopy deletes the replica and waits for its end.
func (k *reflection) removeCopy(ctx context.Context, it *multicluster.Item, copied *unstructured.Unstructured) error {
	if copied.GetDeletionTimestamp().IsZero() {
		if err := it.Remote.Delete(ctx, copied); err != nil {
			return fmt.Errorf("deleting the copy: %w", classifyAnswer(err))
		}
	}
	return kube.Wait(0, "the copy is being deleted")
}

// releaseLocal removes the finalizer of local once the peer's API server confirms that no replica exists.
func (k *reflection) releaseLocal(ctx context.Context, it *multicluster.Item, local *unstructured.Unstructured) error {
	remote, err := k.readLive(ctx, it.Remote, it.Name)
	if err != nil {
		return classifyAnswer(err)
	}
	if remote != nil && k.ends.isCopy(remote) {
		return k.removeCopy(ctx, it, remote)
	}
	if err := letGo(ctx, it.Local.Client(), local); err != nil {
		return err
	}
	k.changed()
	return nil
}

// ignoreRefusal releases a disposable object although the peer rejects the get or delete of its replica: the deletion of a Tenant revokes
// our permissions, and deletes the replica.
func (k *reflection) ignoreRefusal(ctx context.Context, it *multicluster.Item, local *unstructured.Unstructured, err error) error {
	if _, refused := errors.AsType[*rejectedCall](err); !refused || !k.resource.disposable {
		return err
	}
	if err := letGo(ctx, it.Local.Client(), local); err != nil {
		return err
	}
	k.changed()
	return nil
}

// deleteOrphan deletes a replica whose object is gone, for example after a manual removal of the finalizer. It reads from the
// API server: during a change of leader the cache of replicas may be newer than the cache of objects.
func (k *reflection) deleteOrphan(ctx context.Context, it *multicluster.Item, copied *unstructured.Unstructured) error {
	local, err := k.readLive(ctx, it.Local, it.Name)
	if err != nil {
		return err
	}
	if k.ends.isConcerned(local) {
		return kube.Wait(0, "the object was just created, and its watch event is pending")
	}
	return k.removeCopy(ctx, it, copied)
}

// letGo takes our finalizer off an object.
func letGo(ctx context.Context, c client.Client, obj client.Object) error {
	patched := obj.DeepCopyObject().(client.Object)
	if !controllerutil.RemoveFinalizer(patched, names.ReplicatorFinalizer) {
		return nil
	}
	patch := client.MergeFromWithOptions(obj, client.MergeFromWithOptimisticLock{})
	if err := client.IgnoreNotFound(c.Patch(ctx, patched, patch)); err != nil {
		return fmt.Errorf("removing the finalizer: %w", err)
	}
	return nil
}

// rejectedCall is the error of a call that the peer rejected: a permission is missing, or the credentials are invalid.
type rejectedCall struct {
	error
	message string
}

func (r *rejectedCall) Unwrap() error { return r.error }

// classifyAnswer returns the error of a call to the peer, as a refusal if the call was rejected.
func classifyAnswer(err error) error {
	if !apierrors.IsForbidden(err) && !apierrors.IsUnauthorized(err) {
		return err
	}
	if apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
		return err
	}
	message := err.Error()
	var status apierrors.APIStatus // APIStatus is no error type, so AsType does not apply
	if errors.As(err, &status) {
		message = status.Status().Message
	}
	return &rejectedCall{err, message}
}
