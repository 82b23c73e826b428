// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package network

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/internal/kube"
)

// ensureObject creates or updates an object of owner, unless the object has another owner: two owners must not overwrite each other for ever. live
// reads an owner of any kind: caches contain only kinds of Liqo.
func ensureObject(ctx context.Context, c client.Client, live client.Reader, owner, want client.Object, opts ...kube.EnsureOption) error {
	_, err := ensureNow(ctx, c, live, owner, want, opts...)
	return err
}

// ensureNow does the same as ensureObject, and reports whether it wrote: a later read by c may be older.
func ensureNow(ctx context.Context, c client.Client, live client.Reader, owner, want client.Object, opts ...kube.EnsureOption) (changed bool, err error) {
	kind := kindOf(want).Kind
	current := objectOf(kindOf(want))
	err = c.Get(ctx, client.ObjectKeyFromObject(want), current)
	if client.IgnoreNotFound(err) != nil {
		return false, fmt.Errorf("reading %s %s: %w", kind, want.GetName(), err)
	}
	if err := checkOwner(ctx, live, owner, current); err != nil {
		return false, err
	}
	changed, err = kube.Ensure(ctx, c, want, append(opts, kube.OwnedBy(owner, kube.Scheme))...)
	return changed, isRefused(err)
}

// checkOwner returns an error if an object has another controller than its owner: a Wait if the controller is gone or in deletion.
func checkOwner(ctx context.Context, live client.Reader, owner, current client.Object) error {
	is := metav1.GetControllerOf(current)
	if is == nil || is.UID == owner.GetUID() {
		return nil
	}
	kind := kindOf(current).Kind
	if err := leftBehind(current, *metav1.NewControllerRef(owner, kindOf(owner))); err != nil {
		return err
	}
	if goes, err := isGoing(ctx, live, current.GetNamespace(), *is); err != nil {
		return err
	} else if goes {
		return kube.Wait(handover, fmt.Sprintf("an object of the earlier %s %s is being deleted: %s %s", is.Kind, is.Name, kind, current.GetName()))
	}
	return kube.Again(refusedDelay, kube.Invalid(reasonTaken, fmt.Errorf("%s %s belongs to %s %s: use different names", kind, current.GetName(), is.Kind, is.Name)))
}

// handover is the retry interval for objects of an earlier owner with the same name.
const handover = time.Second

// leftBehind returns Wait if an object belongs to an earlier owner with the same name: the garbage collector
// deletes it.
func leftBehind(obj client.Object, owner metav1.OwnerReference) error {
	if is := metav1.GetControllerOf(obj); is != nil && is.UID != owner.UID && is.Kind == owner.Kind && is.Name == owner.Name {
		return kube.Wait(handover, fmt.Sprintf("an object of an earlier %s %s is being deleted: %s", owner.Kind, owner.Name, obj.GetName()))
	}
	return nil
}

// isGoing reports whether an owner, or the gateway of a rendered owner, is gone or in deletion: the garbage collector deletes dependents in order.
func isGoing(ctx context.Context, live client.Reader, namespace string, ref metav1.OwnerReference) (bool, error) {
	for range 2 {
		owner := objectOf(schema.FromAPIVersionAndKind(ref.APIVersion, ref.Kind))
		err := live.Get(ctx, client.ObjectKey{Namespace: namespace, Name: ref.Name}, owner)
		switch {
		case apierrors.IsNotFound(err):
			return true, nil
		case apierrors.IsForbidden(err), apimeta.IsNoMatchError(err): // a third-party kind
			return false, nil
		case err != nil:
			return false, fmt.Errorf("reading %s %s: %w", ref.Kind, ref.Name, err)
		case owner.GetUID() != ref.UID || owner.GetDeletionTimestamp() != nil:
			return true, nil
		}
		of := metav1.GetControllerOf(owner)
		if of == nil {
			return false, nil
		}
		ref = *of
	}
	return false, nil
}

// refusedDelay is the retry interval after a rejection by the API server: another object may be the reason.
const refusedDelay = 30 * time.Second

// isRefused reports to the user why the API server rejected the template's content.
func isRefused(err error) error {
	if apierrors.IsInvalid(err) || apierrors.IsBadRequest(err) {
		return kube.Again(refusedDelay, kube.Invalid(reasonRefused, err))
	}
	return err
}
