// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"fmt"
	"reflect"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// CopyObject copies from into into, and does not change from. Either object may be unstructured.
func CopyObject(from, into client.Object) error {
	target := reflect.ValueOf(into).Elem()
	if reflect.TypeOf(from) == reflect.TypeOf(into) {
		target.Set(reflect.ValueOf(from.DeepCopyObject()).Elem())
		return nil
	}
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(from)
	if err != nil {
		return fmt.Errorf("converting %T: %w", from, err)
	}
	if u, ok := into.(*unstructured.Unstructured); ok {
		gvk := u.GroupVersionKind()
		u.Object = fields
		u.SetGroupVersionKind(gvk)
		return nil
	}
	target.SetZero()
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(fields, into); err != nil {
		return fmt.Errorf("converting %T to %T: %w", from, into, err)
	}
	return nil
}
