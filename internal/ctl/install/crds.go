// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"context"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/internal/names"
)

var crdKind = schema.GroupVersionKind{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition"}

func crdObject(name string) *metav1.PartialObjectMetadata {
	crd := &metav1.PartialObjectMetadata{}
	crd.SetGroupVersionKind(crdKind)
	crd.Name = name
	return crd
}

// applyCRDs installs or upgrades the CRDs and waits until they are served.
func (i *Installer) applyCRDs(ctx context.Context, crds []*unstructured.Unstructured) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(8)
	for _, crd := range crds {
		group.Go(func() error {
			if err := i.Client.Apply(ctx, client.ApplyConfigurationFromUnstructured(crd.DeepCopy()), client.FieldOwner(names.CLIFieldManager), client.ForceOwnership); err != nil {
				return fmt.Errorf("applying CRD %s: %w", crd.GetName(), err)
			}
			return i.waitEstablished(ctx, crd.GetName())
		})
	}
	return group.Wait()
}

func (i *Installer) waitEstablished(ctx context.Context, name string) error {
	crd := &unstructured.Unstructured{}
	crd.SetGroupVersionKind(crdKind)
	// It takes a fraction of a second: a watch for each of two dozen would cost more than these reads.
	err := wait.PollUntilContextCancel(ctx, 100*time.Millisecond, true, func(ctx context.Context) (bool, error) {
		if err := i.Client.Get(ctx, client.ObjectKey{Name: name}, crd); err != nil {
			return false, err
		}
		return isEstablished(crd), nil
	})
	if err != nil {
		return fmt.Errorf("waiting for CRD %s to be served: %w", name, err)
	}
	return nil
}

func isEstablished(crd *unstructured.Unstructured) bool {
	list, _, _ := unstructured.NestedSlice(crd.Object, "status", "conditions")
	var conditions []metav1.Condition
	for _, item := range list {
		if m, ok := item.(map[string]any); ok {
			kind, _ := m["type"].(string)
			status, _ := m["status"].(string)
			conditions = append(conditions, metav1.Condition{Type: kind, Status: metav1.ConditionStatus(status)})
		}
	}
	return apimeta.IsStatusConditionTrue(conditions, "Established")
}
