// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"

	jsonpatch "github.com/evanphx/json-patch/v5"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// errGone reports that the object was deleted while being reconciled. This ends the pass and is no failure.
var errGone = errors.New("the object is gone")

// patchFinalizers writes the finalizers of obj, with the resourceVersion as a precondition.
func (c *Controller[T]) patchFinalizers(ctx context.Context, obj T) error {
	finalizers := obj.GetFinalizers()
	if finalizers == nil {
		finalizers = []string{}
	}
	body, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"finalizers":      finalizers,
		"resourceVersion": obj.GetResourceVersion(),
	}})
	if err != nil {
		return fmt.Errorf("encoding the finalizers: %w", err)
	}
	return wrapUnlessOurs("writing the finalizers", c.client.Patch(ctx, obj, client.RawPatch(types.MergePatchType, body)))
}

// writeStatus writes the status if the status changed, with the resourceVersion as a precondition.
func (c *Controller[T]) writeStatus(ctx context.Context, before, obj T) error {
	if same, err := SameStatus(before, obj); err != nil || same {
		return err
	}
	write := c.patchStatus
	if _, ok := c.syncer.(StatusCopier[T]); ok {
		write = c.putStatus
	}
	version, err := write(ctx, before, obj)
	if err == nil && version != "" {
		obj.SetResourceVersion(version)
	}
	return wrapUnlessOurs("writing the status", err)
}

// patchStatus writes the changed fields and returns the new resourceVersion.
func (c *Controller[T]) patchStatus(ctx context.Context, before, obj T) (string, error) {
	body, err := statusPatch(before, obj)
	if err != nil || body == nil {
		return "", err
	}
	// The response is decoded into a copy, because the caller's object must stay as reported.
	target := obj.DeepCopyObject().(T)
	err = c.client.Status().Patch(ctx, target, client.RawPatch(types.MergePatchType, body))
	return target.GetResourceVersion(), err
}

// putStatus replaces the whole status.
func (c *Controller[T]) putStatus(ctx context.Context, _, obj T) (string, error) {
	target := c.syncer.(StatusCopier[T]).CopyForStatus(obj)
	err := c.client.Status().Update(ctx, target)
	return target.GetResourceVersion(), err
}

// statusPatch returns the merge patch from the status of before to that of after, nil when they are equal.
func statusPatch(before, after client.Object) ([]byte, error) {
	old, err := statusOf(before)
	if err != nil {
		return nil, err
	}
	now, err := statusOf(after)
	if err != nil {
		return nil, err
	}
	if equality.Semantic.DeepEqual(old, now) {
		return nil, nil
	}
	from, err := json.Marshal(map[string]any{"status": old})
	if err != nil {
		return nil, err
	}
	to, err := json.Marshal(map[string]any{
		"status":   now,
		"metadata": map[string]any{"resourceVersion": after.GetResourceVersion()},
	})
	if err != nil {
		return nil, err
	}
	return jsonpatch.CreateMergePatch(from, to)
}

// SameStatus reports whether two objects have equal statuses.
func SameStatus(a, b client.Object) (bool, error) {
	if x, y := typedStatus(a), typedStatus(b); x != nil && equality.Semantic.DeepEqual(x, y) {
		return true, nil // the slower comparison below only adds that null equals empty
	}
	left, err := statusOf(a)
	if err != nil {
		return false, fmt.Errorf("reading the status of %T: %w", a, err)
	}
	right, err := statusOf(b)
	if err != nil {
		return false, fmt.Errorf("reading the status of %T: %w", b, err)
	}
	left, right = dropNulls(left), dropNulls(right)
	return isEmpty(left) && isEmpty(right) || equality.Semantic.DeepEqual(left, right), nil
}

// statusOf returns a copy of the status.
func statusOf(obj client.Object) (any, error) {
	if typed := typedStatus(obj); typed != nil {
		return runtime.DefaultUnstructuredConverter.ToUnstructured(typed)
	}
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(obj)
	if err != nil {
		return nil, err
	}
	if _, shared := obj.(runtime.Unstructured); shared {
		return runtime.DeepCopyJSONValue(fields["status"]), nil
	}
	return fields["status"], nil
}

// typedStatus returns a pointer to the status of a Go object, nil if the type has no status.
func typedStatus(obj client.Object) any {
	if field := reflect.Indirect(reflect.ValueOf(obj)).FieldByName("Status"); field.IsValid() && field.CanAddr() && field.Kind() == reflect.Struct {
		return field.Addr().Interface()
	}
	return nil
}

// wrapUnlessOurs wraps the error of a write to the reconciled object itself with the action; NotFound becomes errGone.
func wrapUnlessOurs(doing string, err error) error {
	switch {
	case err == nil:
		return nil
	case apierrors.IsNotFound(err):
		return errGone
	default:
		return fmt.Errorf("%s: %w", doing, err)
	}
}
