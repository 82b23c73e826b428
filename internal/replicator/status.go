// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package replicator

import (
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	authv1beta1 "liqo.io/liqo/api/authentication/v1beta1"
	offv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/policy"
)

// believedStatus returns the accepted part of a replica's status by the rules of each kind. A kind without rules has no status.
func believedStatus(local, copied *unstructured.Unstructured) (map[string]any, error) {
	var believed any
	switch kind := local.GroupVersionKind(); kind {
	case offv1beta1.GroupVersion.WithKind("NamespaceMap"):
		var ours, theirs offv1beta1.NamespaceMap
		if err := decodeInto(local, &ours); err != nil {
			return nil, err
		}
		if err := decodeStatus(copied, &theirs); err != nil {
			return nil, err
		}
		believed = new(policy.NamespaceMapStatus(&ours.Spec, &ours.Status, &theirs.Status))
	case authv1beta1.GroupVersion.WithKind("ResourceSlice"):
		var theirs authv1beta1.ResourceSlice
		if err := decodeStatus(copied, &theirs); err != nil {
			return nil, err
		}
		believed = new(policy.ResourceSliceStatus(&theirs.Status))
	case authv1beta1.GroupVersion.WithKind("Renew"):
		var theirs authv1beta1.Renew
		if err := decodeStatus(copied, &theirs); err != nil {
			return nil, err
		}
		believed = new(policy.RenewStatus(&theirs.Status))
	default:
		return nil, fmt.Errorf("no rule for the status of a %s", kind.Kind)
	}
	out, err := runtime.DefaultUnstructuredConverter.ToUnstructured(believed)
	if err != nil {
		return nil, fmt.Errorf("encoding the status of the copy: %w", err)
	}
	return out, nil
}

// decodeStatus decodes only the status: other fields written by a peer are ignored.
func decodeStatus(from *unstructured.Unstructured, into any) error {
	return decodeInto(&unstructured.Unstructured{Object: map[string]any{"status": from.Object["status"]}}, into)
}

func decodeInto(from *unstructured.Unstructured, into any) error {
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(from.Object, into); err != nil {
		return fmt.Errorf("decoding a %s: %w", from.GetKind(), err)
	}
	return nil
}
