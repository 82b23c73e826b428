// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"context"
	"fmt"

	"golang.org/x/sync/errgroup"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/internal/kube"
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
	group, within := errgroup.WithContext(ctx)
	group.SetLimit(8)
	for _, crd := range crds {
		group.Go(func() error {
			if err := i.Client.Apply(within, client.ApplyConfigurationFromUnstructured(crd.DeepCopy()), client.FieldOwner(names.CLIFieldManager), client.ForceOwnership); err != nil {
				return fmt.Errorf("applying CRD %s: %w", crd.GetName(), err)
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	return i.awaitEstablished(ctx, crds)
}

// awaitEstablished waits for all CRDs with one watch: a watch for each of two dozen would cost more.
func (i *Installer) awaitEstablished(ctx context.Context, crds []*unstructured.Unstructured) error {
	all := &metav1.PartialObjectMetadataList{}
	all.SetGroupVersionKind(crdKind.GroupVersion().WithKind(crdKind.Kind + "List"))
	waiting := crds
	return kube.WaitUntil(ctx, i.Client, func(ctx context.Context) error {
		for ; len(waiting) > 0; waiting = waiting[1:] {
			now, name := &unstructured.Unstructured{}, waiting[0].GetName()
			now.SetGroupVersionKind(crdKind)
			if err := i.Client.Get(ctx, client.ObjectKey{Name: name}, now); err != nil {
				return fmt.Errorf("reading CRD %s: %w", name, err)
			}
			if !isEstablished(now) {
				return kube.Pending("the CRD " + name + " is not served yet")
			}
		}
		return nil
	}, kube.Watched{List: all})
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
