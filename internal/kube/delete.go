// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"context"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// DeleteObject deletes an object unless it is gone. The UID protects a new object of the same name. doing is the format
// of the beginning of an error.
func DeleteObject(ctx context.Context, c client.Writer, obj client.Object, doing string, args ...any) error {
	uid := obj.GetUID()
	if err := c.Delete(ctx, obj, client.Preconditions{UID: &uid}); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("%s: %w", fmt.Sprintf(doing, args...), err)
	}
	return nil
}

// DeleteObjects deletes objects, without a wait. Objects already gone or being deleted are skipped. The UID protects a new object of the same
// name.
func DeleteObjects(ctx context.Context, c client.Writer, all []client.Object, opts ...client.DeleteOption) error {
	for _, obj := range all {
		if obj.GetDeletionTimestamp() != nil {
			continue
		}
		uid := obj.GetUID()
		if err := c.Delete(ctx, obj, append(slices.Clip(opts), client.Preconditions{UID: &uid})...); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("deleting %s: %w", client.ObjectKeyFromObject(obj), err)
		}
	}
	return nil
}

// WaitForDeletion waits until the object with this UID is gone, or until done reports true for it. A client of a dry run does not wait:
// controllers would complete the deletion.
func WaitForDeletion(ctx context.Context, c client.WithWatch, obj client.Object, done func(client.Object) bool) error {
	if _, skips := c.(dryRun); skips {
		return nil
	}
	list, err := listFor(c, obj)
	if err != nil {
		return err
	}
	uid := obj.GetUID()
	return WaitForObject(ctx, c, obj, func(_ context.Context, exists bool) error {
		if !exists || obj.GetUID() != uid || done != nil && done(obj) {
			return nil
		}
		text := WatchOne(list, client.ObjectKeyFromObject(obj)).String() + " is still there"
		if finalizers := obj.GetFinalizers(); len(finalizers) > 0 {
			text += ", held by " + strings.Join(finalizers, ", ")
		}
		return Pending(text)
	})
}

// WaitForNone waits until the list is empty. The error of a timeout names the remaining objects and their finalizers.
func WaitForNone(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
	err := WaitUntil(ctx, c, func(ctx context.Context) error {
		if err := c.List(ctx, list, opts...); err != nil {
			return fmt.Errorf("listing remaining objects: %w", err)
		}
		if apimeta.LenList(list) > 0 {
			return Pending(describeObjects(list) + " still there")
		}
		return nil
	}, Watched{List: list, Opts: opts})
	if apierrors.IsNotFound(err) || apimeta.IsNoMatchError(err) {
		return nil
	}
	return err
}

// describeObjects returns the first objects of a list with their finalizers, which identify the slow controller.
func describeObjects(list client.ObjectList) string {
	var names []string
	_ = apimeta.EachListItem(list, func(o runtime.Object) error {
		obj := o.(client.Object)
		name := strings.TrimPrefix(obj.GetNamespace()+"/"+obj.GetName(), "/")
		if f := obj.GetFinalizers(); len(f) > 0 {
			name += " (held by " + strings.Join(f, ", ") + ")"
		}
		names = append(names, name)
		return nil
	})
	const most = 5
	if len(names) > most {
		names = append(names[:most], fmt.Sprintf("and %d more", len(names)-most))
	}
	verb := " is"
	if len(names) > 1 {
		verb = " are"
	}
	return ListKind(list) + " " + strings.Join(names, ", ") + verb
}
