// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package uninstall

import (
	"context"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/internal/await"
)

// WaitGone waits until the list is empty. The error of a timeout names the remaining objects and their finalizers.
func WaitGone(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
	err := await.Until(ctx, c, func(ctx context.Context) error {
		if err := c.List(ctx, list, opts...); err != nil {
			return fmt.Errorf("listing what is left: %w", err)
		}
		if apimeta.LenList(list) > 0 {
			return await.Pending(describeObjects(list) + " still there")
		}
		return nil
	}, await.Watched{List: list, Opts: opts})
	if isAbsent(err) {
		return nil
	}
	return err
}

// isAbsent reports whether an error means a missing object or an unknown kind.
func isAbsent(err error) bool { return apierrors.IsNotFound(err) || apimeta.IsNoMatchError(err) }

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
	return await.KindOf(list) + " " + strings.Join(names, ", ") + verb
}
