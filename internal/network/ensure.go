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

// ensureObject makes what owner is to have what it is wanted to be, unless it is another's: two owners must not take it from each other,
// for ever. live reads the other owner, of whatever kind: caches have only ours.
func ensureObject(ctx context.Context, c client.Client, live client.Reader, owner, want client.Object, opts ...kube.EnsureOption) error {
	_, err := ensureNow(ctx, c, live, owner, want, opts...)
	return err
}

// ensureNow is ensure, and tells whether it wrote: what c reads may then be older than that.
func ensureNow(ctx context.Context, c client.Client, live client.Reader, owner, want client.Object, opts ...kube.EnsureOption) (changed bool, err error) {
	kind := kindOf(want).Kind
	have := objectOf(kindOf(want))
	err = c.Get(ctx, client.ObjectKeyFromObject(want), have)
	if client.IgnoreNotFound(err) != nil {
		return false, fmt.Errorf("reading %s %s: %w", kind, want.GetName(), err)
	}
	if is := metav1.GetControllerOf(have); is != nil && is.UID != owner.GetUID() {
		if err := leftBehind(have, *metav1.NewControllerRef(owner, kindOf(owner))); err != nil {
			return false, err
		}
		if goes, err := isGoing(ctx, live, have.GetNamespace(), *is); err != nil {
			return false, err
		} else if goes {
			return false, kube.Wait(handover, fmt.Sprintf("what %s %s had is being deleted: %s %s", is.Kind, is.Name, kind, want.GetName()))
		}
		return false, kube.Again(refusedDelay, kube.Invalid(reasonTaken, fmt.Errorf("%s %s belongs to %s %s: give them different names", kind, want.GetName(), is.Kind, is.Name)))
	}
	changed, err = kube.Ensure(ctx, c, want, append(opts, kube.OwnedBy(owner, kube.Scheme))...)
	return changed, isRefused(err)
}

// handover is how often to look whether what an earlier owner of the same name had is gone.
const handover = time.Second

// leftBehind is a Wait if an object belongs to an earlier owner that had the name of this one: it goes by itself.
func leftBehind(obj client.Object, owner metav1.OwnerReference) error {
	if is := metav1.GetControllerOf(obj); is != nil && is.UID != owner.UID && is.Kind == owner.Kind && is.Name == owner.Name {
		return kube.Wait(handover, fmt.Sprintf("what an earlier %s %s had is being deleted: %s", owner.Kind, owner.Name, obj.GetName()))
	}
	return nil
}

// isGoing tells whether an owner is gone or on its way, or the gateway that it was rendered for: what it has goes with it, one after the other.
func isGoing(ctx context.Context, live client.Reader, namespace string, ref metav1.OwnerReference) (bool, error) {
	for range 2 {
		owner := objectOf(schema.FromAPIVersionAndKind(ref.APIVersion, ref.Kind))
		err := live.Get(ctx, client.ObjectKey{Namespace: namespace, Name: ref.Name}, owner)
		switch {
		case apierrors.IsNotFound(err):
			return true, nil
		case apierrors.IsForbidden(err), apimeta.IsNoMatchError(err): // of a kind that is not ours
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

// refusedDelay is how often to try again what the API server refused: the reason may be another object.
const refusedDelay = 30 * time.Second

// isRefused tells the user what the API server has against what a template says.
func isRefused(err error) error {
	if apierrors.IsInvalid(err) || apierrors.IsBadRequest(err) {
		return kube.Again(refusedDelay, kube.Invalid(reasonRefused, err))
	}
	return err
}
